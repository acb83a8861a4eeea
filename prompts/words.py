"""Token ids of short texts, word by word: a word that was met before is not encoded again.

A text is cut before each space that follows a printable ASCII character. The pre-tokenizers that
are named here never put two characters into one word across such a place, and look no further than
one white space ahead, so that what lies on each side is encoded as it would be alone. A tokenizer
that isn't known to work like that is not used word by word.
"""

import re
from array import array
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import tokenizers

from prompts.token_splitting import described

# From here on, the library's own work outweighs what it costs to call it.
LONGEST = 4096
_LONGEST_WORD = 64
_WORDS_KEPT = 10_000
_CUT = re.compile(r"(?<=[!-~])(?= )")

# What a pre-tokenizer's pattern matches in a text of one word, of printable ASCII.
# Source of the patterns: tokenizer.json of the models. Each is read from the left, and none of its
# alternatives matches a space after something that isn't white space.
_GPT_2 = r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^ A-Za-z0-9]+"
_PATTERNS: Mapping[str, str] = {
    # Qwen 2 and 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^A-Za-z0-9]?[A-Za-z]+|[0-9]"
    r"| ?[^ A-Za-z0-9]+",
    # Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^A-Za-z0-9]?[A-Za-z]+"
    r"|[0-9]{1,3}| ?[^ A-Za-z0-9]+",
    # DeepSeek 3: numbers, Chinese and Japanese, all else
    r"\p{N}{1,3}": "[0-9]{1,3}",
    "[一-龥\u3040-ゟ\u30a0-ヿ]+": "(?!)",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+": r"[^ A-Za-z0-9][A-Za-z]+"
    r"|[ 0-9]?[A-Za-z]+| ?[^ A-Za-z0-9]+",
}
# A word of printable ASCII, perhaps with a space before it.
_PLAIN = re.compile(" ?[!-~]+")
# How byte-level encoders spell a space.
_SPACE = "\u0120"


class Words(NamedTuple):
    """Ids of a text, and the character at which each token starts."""

    ids: list[int]
    starts: "array[int]"


class _Word(NamedTuple):
    ids: tuple[int, ...]
    starts: tuple[int, ...]


class WordEncoder:
    """Encodes short texts of one tokenizer; bounded. Threads may share it.

    What was met lately is kept: of two generations, the older one goes when the younger is full.
    """

    def __init__(self, encoder: tokenizers.Tokenizer, *, kept: int = _WORDS_KEPT) -> None:
        self._encoder = encoder
        self._model = encoder.model
        self._kept = kept
        self._young: dict[str, _Word] = {}
        self._old: dict[str, _Word] = {}
        self._splits: list[re.Pattern[str]] = []
        self._added = _added(encoder)
        self.knows = ends_words_at_spaces(encoder)
        if self.knows:
            parts = described(encoder.pre_tokenizer)
            self._splits = [re.compile(f"({p})") for part in parts if (p := _pattern(part))]

    @property
    def held(self) -> int:
        """Words that are kept."""
        return len(self._young) + len(self._old)

    def encode(self, text: str, start: int = 0) -> Words:
        """The ids of a text, encoded as if in one go; its first character is number `start`."""
        if not self.knows:
            return self._whole(text, start)
        ids: list[int] = []
        starts: list[int] = []
        known = self._young.get
        for part in _cut(text):
            word = known(part) or self._met(part)
            ids += word.ids
            if len(word.starts) == 1:
                starts.append(start)
            else:
                starts.extend(map(start.__add__, word.starts))
            start += len(part)
        return Words(ids, array("I", starts))

    def _met(self, text: str) -> _Word:
        """A word that isn't among those met last."""
        word = self._old.get(text)
        if word is None:
            word = self._by_pieces(text)
        if word is None:
            encoding = self._encoder.encode(text, add_special_tokens=False)
            word = _Word(tuple(encoding.ids), tuple([first for first, _ in encoding.offsets]))
        if len(text) > _LONGEST_WORD:
            return word
        return self._keep(text, word)

    def _keep(self, text: str, word: _Word) -> _Word:
        if len(self._young) >= self._kept:
            self._old, self._young = self._young, {}
        self._young[text] = word
        return word

    def _by_pieces(self, text: str) -> _Word | None:
        """A new word from the pieces that a pre-tokenizer makes of it: numbers, letters, signs.

        None where only the library can tell. It would be right, too, at several times the cost.
        """
        plain = len(text) <= _LONGEST_WORD and _PLAIN.fullmatch(text)
        if not plain or (self._added is not None and self._added.search(text)):
            return None
        pieces = [text]
        for pattern in self._splits:
            pieces = [part for piece in pieces for part in pattern.split(piece) if part]
        if len(pieces) == 1:
            return self._piece(text)
        ids: list[int] = []
        starts: list[int] = []
        at = 0
        for part in pieces:
            word = self._young.get(part) or self._old.get(part)
            if word is None:
                word = self._keep(part, self._piece(part))
            ids += word.ids
            starts += [at + first for first in word.starts]
            at += len(part)
        return _Word(tuple(ids), tuple(starts))

    def _piece(self, text: str) -> _Word:
        """What the pre-tokenizer doesn't divide: a letter is a character in the vocabulary."""
        tokens = self._model.tokenize(text.replace(" ", _SPACE))
        ends = accumulate((len(token.value) for token in tokens), initial=0)
        return _Word(tuple([token.id for token in tokens]), tuple(ends)[:-1])

    def _whole(self, text: str, start: int) -> Words:
        encoding = self._encoder.encode(text, add_special_tokens=False)
        return Words(encoding.ids, array("I", [start + first for first, _ in encoding.offsets]))


def _cut(text: str) -> list[str]:
    """The text, cut where it may be; most texts need no regular expression for it."""
    plain = text.isascii() and "  " not in text and "\n " not in text and text[:1] != " "
    if plain and text.replace("\n", "").isprintable():
        return text.replace(" ", "\0 ").split("\0")
    return _CUT.split(text)


def ends_words_at_spaces(encoder: tokenizers.Tokenizer) -> bool:
    """Whether no token of a text holds a space after something else, and texts may be cut there."""
    model = encoder.model
    if not isinstance(model, tokenizers.models.BPE) or model.dropout:
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return False
    if not all(part == {"type": "NFC"} for part in described(encoder.normalizer)):
        return False
    pre_tokenizers = described(encoder.pre_tokenizer)
    if not any(_splits(part) for part in pre_tokenizers):
        return False
    if not all(_splits(part) or _joins_nothing(part) for part in pre_tokenizers):
        return False
    return all(
        token.special or not (" " in token.content[1:] or token.lstrip or token.rstrip)
        for token in encoder.get_added_tokens_decoder().values()
    )


def _pattern(part: dict[str, Any]) -> str | None:
    """What a pre-tokenizer looks for, in words of printable ASCII."""
    match part:
        case {"type": "ByteLevel", "use_regex": True}:
            return _GPT_2
        case {"type": "Split"}:
            return _PATTERNS[part["pattern"]["Regex"]]
        case {"type": "Digits"}:
            return "[0-9]" if part["individual_digits"] else "[0-9]+"
    return None


def _added(encoder: tokenizers.Tokenizer) -> re.Pattern[str] | None:
    """The added tokens that a text may spell."""
    texts = [t.content for t in encoder.get_added_tokens_decoder().values() if not t.special]
    return re.compile("|".join(map(re.escape, texts))) if texts else None


def _splits(part: dict[str, Any]) -> bool:
    if part["type"] == "ByteLevel":
        return bool(part["use_regex"] and not part["add_prefix_space"])
    if part["type"] != "Split" or part["behavior"] != "Isolated" or part["invert"]:
        return False
    return bool(part["pattern"].get("Regex") in _PATTERNS)


def _joins_nothing(part: dict[str, Any]) -> bool:
    if part["type"] == "ByteLevel":
        return bool(not part["add_prefix_space"])
    return bool(part["type"] == "Digits")
