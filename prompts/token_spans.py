"""Pieces of a rendered chat to spans: what is encoded in one go, and the control tokens between."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tokenizers

from prompts.chat_shapes import Piece
from prompts.segments import Message

_OWN_WORDS_KEPT = 1000


class Span(NamedTuple):
    """Text that is encoded in one go, in parts; or one control token.

    `starts` are the characters of the whole text at which the parts begin.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    control: int | None = None


@dataclass(frozen=True, slots=True)
class _Control:
    id: int
    eats_before: bool
    eats_after: bool


class ControlTokens:
    """The tokens that only a chat template's own words may spell.

    They are the tokenizer's special tokens, and those of its other added tokens that the chat
    template spells: DeepSeek's role tokens and Qwen's `<tool_call>` are not marked special.
    """

    def __init__(self, encoder: tokenizers.Tokenizer, template_source: str) -> None:
        self._tokens: dict[str, _Control] = {}
        soft: list[str] = []
        for token_id, token in encoder.get_added_tokens_decoder().items():
            if not token.special and not _named(token.content, template_source):
                continue
            self._tokens[token.content] = _Control(token_id, token.lstrip, token.rstrip)
            if not token.special:
                soft.append(token.content)
        self._own_words: dict[str, Sequence[str]] = {}
        self._ids = frozenset(control.id for control in self._tokens.values())
        self._any = _alternatives(self._tokens)
        self._soft = _alternatives(soft)
        self._hard = _alternatives(set(self._tokens) - set(soft))
        self.soft = frozenset(soft)

    def first_in(self, text: str, *, of_model: bool = False) -> str | None:
        """The first control token that a text spells and may not, if any.

        A text `of_model` may spell those that aren't marked special.
        """
        pattern = self._hard if of_model else self._any
        found = pattern.search(text) if pattern else None
        return found.group() if found else None

    def broken_up(self, text: str) -> str:
        """The text with a space in each control token that it spells, so that it spells none."""
        while (token := self.first_in(text)) is not None:
            broken = f"{token[0]} {token[1:]}"
            text = text.replace(token, " " if token in broken else broken)
        return text

    def __contains__(self, token_id: object) -> bool:
        return token_id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._tokens)

    def is_soft(self, text: str) -> bool:
        """Whether a control token is not marked special, so that a model may say it in passing."""
        return text in self.soft

    def eats(self, text: str) -> bool:
        """Whether a control token takes blanks beside it along."""
        token = self._tokens.get(text)
        return token is not None and (token.eats_before or token.eats_after)

    def id_of(self, text: str) -> int:
        """The id of a control token."""
        return self._tokens[text].id

    def spans(
        self, pieces: Sequence[Piece], messages: Sequence[Message], cuts: Iterable[int] = ()
    ) -> list[Span]:
        """The spans of a rendered chat; a part begins at each character in `cuts` that is text.

        The model's own words may spell what isn't special, as it spelled it when it answered.
        """
        builder = _Builder(sorted(cuts))
        for piece in pieces:
            if piece.origin is None:
                split = self._split_own(piece.text)
            else:
                pattern = self._allowed(piece, messages)
                split = pattern.split(piece.text) if pattern else (piece.text,)
            self._add(builder, split)
        return builder.finish()

    def spans_of(self, text: str) -> list[Span]:
        """The spans of a text that may spell all control tokens."""
        builder = _Builder(())
        self._add(builder, self._any.split(text) if self._any else (text,))
        return builder.finish()

    def _add(self, builder: "_Builder", split: Sequence[str]) -> None:
        """Text and control tokens by turns."""
        if split[0]:
            builder.text(split[0])
        for position in range(1, len(split), 2):
            builder.control(split[position], self._tokens[split[position]])
            if split[position + 1]:
                builder.text(split[position + 1])

    def _split_own(self, text: str) -> Sequence[str]:
        """Text and control tokens by turns; a template's own words are few, and kept."""
        known = self._own_words.get(text)
        if known is None:
            # re.split with one group alternates: text, control token, text, …
            known = self._any.split(text) if self._any else (text,)
            if len(self._own_words) < _OWN_WORDS_KEPT:
                self._own_words[text] = known
        return known

    def _allowed(self, piece: Piece, messages: Sequence[Message]) -> re.Pattern[str] | None:
        assert piece.origin is not None
        index, field = piece.origin
        if index is None or field not in ("content", "reasoning"):
            return None
        return self._soft if messages[index].role == "assistant" else None


class _Builder:
    def __init__(self, cuts: Sequence[int]) -> None:
        self._cuts = iter(cuts)
        self._cut = next(self._cuts, sys.maxsize)
        self._spans: list[Span] = []
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._position = 0
        self._eating = False

    def text(self, text: str) -> None:
        if self._eating:
            kept = text.lstrip()
            self._position += len(text) - len(kept)
            self._eating = not kept
            text = kept
        first = self._position
        end = first + len(text)
        while self._cut < end:
            if self._cut > self._position:
                self._part(text[self._position - first : self._cut - first])
            self._cut = next(self._cuts, sys.maxsize)
        if self._position == first < end:
            self._parts.append(text)
            self._starts.append(first)
            self._position = end
        elif self._position < end:
            self._part(text[self._position - first :])

    def _part(self, text: str) -> None:
        self._parts.append(text)
        self._starts.append(self._position)
        self._position += len(text)

    def control(self, text: str, token: _Control) -> None:
        if token.eats_before:
            while self._parts and not (kept := self._parts[-1].rstrip()):
                self._parts.pop()
                self._starts.pop()
            if self._parts:
                self._parts[-1] = kept
        if self._parts:
            self._close()
        self._spans.append(Span((text,), (self._position,), token.id))
        self._position += len(text)
        self._eating = token.eats_after

    def finish(self) -> list[Span]:
        self._close()
        return self._spans

    def _close(self) -> None:
        if self._parts:
            self._spans.append(Span(tuple(self._parts), tuple(self._starts)))
            self._parts, self._starts = [], []


def _named(token: str, template_source: str) -> bool:
    """Whether a template spells a token on purpose: runs of line ends and spaces it has anyway."""
    return bool(token.strip(" \t\r\n\u2581")) and token in template_source


def _alternatives(texts: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
