"""What the simulated model says: nothing of sense, but always the same after the same tokens.

As with greedy decoding, the next token is a function of all the tokens before it, so that a
prompt which ends in part of an answer is continued as the answer was.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Words the model may say, and how it stops.

    Attributes:
        words: token ids whose texts stand by themselves.
        eos: the token that ends an answer; None if the tokenizer has none.
        eos_every_tokens: on average; None: an answer never ends by itself.
        opening: tokens that every answer begins with.
    """

    words: tuple[int, ...]
    eos: int | None
    eos_every_tokens: int | None
    opening: tuple[int, ...] = ()


class Speaker:
    """One answer in the making."""

    def __init__(self, language: Language, prompt: Sequence[int]) -> None:
        self._language = language
        self._opening = iter(language.opening)
        self._state = blake2b(array("I", prompt).tobytes(), digest_size=8)

    def next(self, *, may_stop: bool) -> int:
        """The next token; `may_stop` False keeps the end-of-turn token back."""
        for token in self._opening:
            return token
        number = int.from_bytes(self._state.digest(), "little")
        language = self._language
        every = language.eos_every_tokens
        token = language.words[(number >> 16) % len(language.words)]
        if may_stop and every and language.eos is not None and number % every == 0:
            token = language.eos
        self._state.update(array("I", (token,)).tobytes())
        return token
