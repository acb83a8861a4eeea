"""Words to make text of, so that so many of them are so many words, or so many tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

import tokenizers

from bench.errors import WorkloadError
from bench.workloads.chance import Chance

_ENGLISH = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or "
    "had an they which one you were all her she there would their we him been has when who will no "
    "more if out so up said what its about than into them can only other time new some could these "
    "two may first then do any like my now over such our man me even most made after also well "
    "must before many years through where much your way down should because long each just people "
    "state those how too little good world make very still work life day get here "
    "between both under never same another know while last might great old off come since go right "
    "used take three states himself few house use place home again part city found system program "
    "during number water group night school hand form side power head room line public order book "
    "point story music paper garden winter summer river bridge letter window market table north "
    "south east west church island office station doctor father mother friend color voice street "
    "history nature field value matter reason answer question problem business company service"
)
_MOST = 4096
_FEWEST = 32
_PLAIN = re.compile(r"[a-z]{2,12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Words, each one unit long when they are joined by spaces.

    Attributes:
        unit: `tokens` or `words`; what lengths are counted in.
        openers: words that are one unit at the beginning of a text, too.
        tokenizer_sha256: of the file that the tokens are of.
    """

    words: tuple[str, ...]
    openers: tuple[str, ...]
    unit: str
    tokenizer_sha256: str | None = None
    tokenizer: tokenizers.Tokenizer | None = None

    def text(self, chance: Chance, length: int) -> str:
        """So many units of text."""
        if not length:
            return ""
        words = self.words
        rest = [words[chance.below(len(words))] for _ in range(length - 1)]
        return " ".join([chance.pick(self.openers), *rest])

    def count(self, text: str) -> int:
        """How long a text of any kind is, in units."""
        if self.tokenizer is None:
            return len(text.split())
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def described(self) -> dict[str, str | int | None]:
        """For a workload's parameters."""
        return {
            "unit": self.unit,
            "vocabulary": len(self.words),
            "tokenizer_sha256": self.tokenizer_sha256,
        }


def english_words() -> Vocabulary:
    """A few hundred common words; lengths are in words."""
    words = tuple(dict.fromkeys(_ENGLISH.split()))
    return Vocabulary(words=words, openers=words, unit="words")


def token_words(path: Path) -> Vocabulary:
    """Words that are one token of a tokenizer after a space; lengths are in tokens.

    Args:
        path: a `tokenizer.json`, or the folder in which it is.

    Raises:
        WorkloadError: it can't be read, or too few of its tokens are words.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        held = file.read_bytes()
    except OSError as error:
        raise WorkloadError(str(file), f"can't be read: {error.strerror}") from error
    try:
        tokenizer = tokenizers.Tokenizer.from_str(held.decode())
    # What `tokenizers` raises for a bad file is a bare Exception; not UTF-8 is a ValueError.
    except Exception as error:
        raise WorkloadError(str(file), f"isn't a tokenizer: {error}") from error
    # A cut or a filling set in the file would make every text equally long.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    words = tuple(islice(_one_token_words(tokenizer), _MOST))
    openers = tuple(word for word in words if _tokens(tokenizer, word) == 1)
    if len(words) < _FEWEST or not openers:
        raise WorkloadError(str(file), f"only {len(words)} of its tokens are words")
    return Vocabulary(
        words=words,
        openers=openers,
        unit="tokens",
        tokenizer_sha256=sha256(held).hexdigest(),
        tokenizer=tokenizer,
    )


def vocabulary_of(tokenizer: Path | None) -> Vocabulary:
    """Of a tokenizer where one is given, else of English words."""
    return english_words() if tokenizer is None else token_words(tokenizer)


def _one_token_words(tokenizer: tokenizers.Tokenizer) -> Iterator[str]:
    """In the order of their ids, the common ones first in most tokenizers."""
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    seen: set[str] = set()
    for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda named: named[1]):
        word = _bare(token)
        if token in special or word in seen or not _PLAIN.fullmatch(word):
            continue
        seen.add(word)
        # The first of them may be several tokens: only those after a space count.
        first = _tokens(tokenizer, word)
        if _tokens(tokenizer, f"{word} {word} {word}") == first + 2:
            yield word


def _bare(token: str) -> str:
    """Without the mark that stands for a space in front of it."""
    return token.lstrip("\u0120\u2581")


def _tokens(tokenizer: tokenizers.Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)
