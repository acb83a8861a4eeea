"""Texts made unreadable, with their lengths and the prefixes that they share kept. Pure.

Each piece is replaced by a word that depends on every piece before it: two prompts share as long a
prefix as before, and beyond it nothing, so that words can't be guessed by how often they come. Who
has the seed can still test a guess of a whole beginning: keep the seed of real traffic to yourself.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b

from bench.workloads.vocabulary import Vocabulary

_PIECE = re.compile(r"\w+|[^\w\s]")
_DIGEST_BYTES = 16


class Disguise:
    """Replaces the texts of one prompt after the other; `mark` stands for all so far.

    Args:
        vocabulary: where it has a tokenizer, each token becomes a word of one token.
    """

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        self._vocabulary = vocabulary
        self._start = blake2b(str(seed).encode(), digest_size=_DIGEST_BYTES).digest()
        self.mark = self._start

    def begin(self) -> None:
        """A new prompt."""
        self.mark = self._start

    def note(self, what: str) -> None:
        """Something that isn't shown but sets prompts apart, such as a role."""
        self.mark = blake2b(self.mark + what.encode(), digest_size=_DIGEST_BYTES).digest()

    def text(self, text: str) -> str:
        """As many words as the text has pieces."""
        words = self._vocabulary.words
        made = []
        for piece in self._pieces(text):
            self.note(piece)
            made.append(words[int.from_bytes(self.mark[:8], "little") % len(words)])
        return " ".join(made)

    def _pieces(self, text: str) -> Iterator[str]:
        tokenizer = self._vocabulary.tokenizer
        if tokenizer is None:
            yield from _PIECE.findall(text)
        else:
            yield from map(str, tokenizer.encode(text, add_special_tokens=False).ids)
