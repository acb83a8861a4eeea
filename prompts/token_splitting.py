"""Where a tokenizer's work may be cut in two without changing a token.

A text's tokens don't depend on what follows it, except near its end: a longer text may merge, match
or normalize across the seam. This module finds, in a text that was encoded, the last place before
which nothing can change, whatever is put after the text.

Two kinds of byte-pair encoders are understood. Where a pre-tokenizer splits text, its regular
expressions work from left to right and look a few characters ahead, so that the pieces after a
split depend only on what follows it. Where nothing splits (Gemma), the theorem of Daniel Lemire's
and GitHub's BPE work is used: a token sequence is the encoding of its text exactly when each two
neighbours are the encoding of theirs. Any other tokenizer is encoded whole.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import tokenizers

# How far ahead of a split a pre-tokenizer or the longest added token may look, in characters.
_LOOKAHEAD_CHARACTERS = 32
_NORMALIZERS = {"NFC"}
_PRE_TOKENIZERS = {"Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"}
# Looking behind, at anchors, or far ahead: splits then don't depend on what follows alone.
_FAR_SIGHTED = re.compile(r"\(\?<?[=<]|\\[bBAZzG]|[$^]")
_ESCAPE_OR_CLASS = re.compile(r"(\\[bBAZzG])|\\.|\[(?:\\.|[^\]\\])*\]")
_PROBE = "one two three"


class Splitting(Enum):
    """How far the work on a text can be cut."""

    WORDS = "words"
    """Between the pieces that a pre-tokenizer makes."""
    PAIRS = "pairs"
    """Between any two tokens."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Settled:
    """The tokens before index `token` and character `character` stay, whatever follows the text.

    `witnesses` more tokens stay too: encoding again from `character` on must begin with them.
    """

    token: int
    character: int
    witnesses: int


NOTHING = Settled(0, 0, 0)


class Splitter:
    """Finds settled places in encoded texts of one tokenizer."""

    def __init__(self, encoder: tokenizers.Tokenizer) -> None:
        self.splitting = _splitting(encoder)
        longest = max(
            (len(t.content) for t in encoder.get_added_tokens_decoder().values()), default=0
        )
        self._margin = max(longest, _LOOKAHEAD_CHARACTERS)

    def settled(self, text: str, encoding: tokenizers.Encoding) -> Settled:
        """The last place in a text, encoded by itself, before which its tokens are final."""
        limit = len(text) - self._margin
        if self.splitting is Splitting.NONE or limit <= 0:
            return NOTHING
        offsets, words = encoding.offsets, encoding.word_ids
        later: int | None = None
        for token in range(len(offsets) - 1, 0, -1):
            start = offsets[token][0]
            if start > limit or not self._splits(text, offsets, words, token):
                continue
            if later is None:
                later = token
            elif not text[start : offsets[later][0]].isspace():
                return Settled(token, start, later - token)
        return NOTHING

    def _splits(
        self,
        text: str,
        offsets: Sequence[tuple[int, int]],
        words: Sequence[int | None],
        token: int,
    ) -> bool:
        """Whether a token begins where the text may be cut."""
        if self.splitting is Splitting.WORDS and words[token] == words[token - 1]:
            return False
        start = offsets[token][0]
        aligned = offsets[token - 1][1] == start > offsets[token - 1][0]
        return aligned and _never_composes(text[start])


def _never_composes(character: str) -> bool:
    """Whether no normalization joins a character with the one before it."""
    return (
        character.isascii()
        or "\u3040" <= character <= "\u3096"
        or "\u4e00" <= character <= "\u9fff"
    )


def _splitting(encoder: tokenizers.Tokenizer) -> Splitting:
    model = encoder.model
    if not isinstance(model, tokenizers.models.BPE) or model.dropout:
        return Splitting.NONE
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return Splitting.NONE
    normalizers, pre_tokenizers = described(encoder.normalizer), described(encoder.pre_tokenizer)
    if not all(_keeps_places(part) for part in normalizers):
        return Splitting.NONE
    if not all(_near_sighted(part) for part in pre_tokenizers):
        return Splitting.NONE
    return Splitting.WORDS if _splits_words(encoder) else Splitting.PAIRS


def _splits_words(encoder: tokenizers.Tokenizer) -> bool:
    normalized = encoder.normalizer.normalize_str(_PROBE) if encoder.normalizer else _PROBE
    pre_tokenizer = encoder.pre_tokenizer
    return bool(pre_tokenizer and len(pre_tokenizer.pre_tokenize_str(normalized)) > 1)


def described(component: Any) -> list[dict[str, Any]]:
    """The description of a normalizer or pre-tokenizer, sequences taken apart."""
    if component is None:
        return []
    described = json.loads(component.__getstate__())
    if described.get("type") == "Sequence":
        return list(described.get("normalizers") or described.get("pretokenizers") or [])
    return [described]


def _keeps_places(normalizer: dict[str, Any]) -> bool:
    if normalizer["type"] == "Replace":
        pattern = normalizer["pattern"].get("String", "")
        return len(pattern) == len(normalizer["content"]) == 1
    return normalizer["type"] in _NORMALIZERS


def _near_sighted(pre_tokenizer: dict[str, Any]) -> bool:
    if pre_tokenizer["type"] not in _PRE_TOKENIZERS or pre_tokenizer.get("add_prefix_space"):
        return False
    regex = pre_tokenizer.get("pattern", {}).get("Regex", "")
    bare = _ESCAPE_OR_CLASS.sub(lambda found: found.group(1) or "", regex)
    return _FAR_SIGHTED.search(bare) is None
