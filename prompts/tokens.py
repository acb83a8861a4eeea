"""Prompts to token ids, with the model's own tokenizer, exactly as the engine would.

The text between two special tokens is encoded in one go, so that merges over the seams of segments
come out as they would for the whole text. Only the chat template's own words may spell special
tokens; in text from users, tools and documents the same characters are plain text.
"""

import json
import re
from bisect import bisect_left
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import tokenizers

from prompts.chat_template import ChatTemplate, Piece
from prompts.errors import TokenizerNotFoundError
from prompts.segments import Prompt, RenderedSegment, SegmentTokens, TokenizedPrompt

_DIGEST_BYTES = 16
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")


@dataclass(frozen=True, slots=True)
class _Span:
    """Part of the text that is encoded in one go; `special` holds the id of a special token."""

    text: str
    special: int | None = None


class PromptTokenizer:
    """A model's tokenizer together with its chat template.

    Threads may share one: nothing is changed after it is made.
    """

    def __init__(self, encoder: tokenizers.Tokenizer, chat: ChatTemplate, identity: str) -> None:
        """`encoder` must have `encode_special_tokens` set, as `load_tokenizer` does.

        `identity` is a digest of the tokenizer and the chat template.
        """
        self.identity = identity
        self.chat = chat
        self._encoder = encoder
        self._special = {
            token.content: token_id
            for token_id, token in encoder.get_added_tokens_decoder().items()
            if token.special
        }
        longest_first = sorted(self._special, key=len, reverse=True)
        alternatives = "|".join(re.escape(token) for token in longest_first)
        self._pattern = re.compile(f"({alternatives})") if alternatives else None

    def count(self, text: str) -> int:
        """Tokens of a text by itself, no special token added."""
        return len(self._encoder.encode(text, add_special_tokens=False).ids)

    def special_in(self, text: str) -> str | None:
        """The first special token that a text spells, if any."""
        found = self._pattern.search(text) if self._pattern else None
        return found.group() if found else None

    def tokenize(self, prompt: Prompt) -> TokenizedPrompt:
        """The ids that the engine gets, and where each segment lies in them.

        Raises:
            ChatTemplateError: the chat template hides which text is its own.
        """
        pieces = self.chat.pieces(prompt.messages)
        token_ids, starts = self._encode(self._spans(pieces))
        ranges = []
        for segment, start, stop in _segment_characters(prompt, pieces):
            first, last = _first_at(starts, start), _first_at(starts, stop)
            ranges.append(SegmentTokens(segment=segment, start=first, stop=last))
        return TokenizedPrompt(prompt=prompt, token_ids=tuple(token_ids), ranges=tuple(ranges))

    def _spans(self, pieces: list[Piece]) -> list[_Span]:
        spans: list[_Span] = []
        plain = ""
        for piece in pieces:
            if piece.message is not None or self._pattern is None:
                plain += piece.text
                continue
            # re.split with one group alternates: text, special token, text, …
            for position, part in enumerate(self._pattern.split(piece.text)):
                if position % 2 == 0:
                    plain += part
                    continue
                if plain:
                    spans.append(_Span(plain))
                spans.append(_Span(part, self._special[part]))
                plain = ""
        return [*spans, _Span(plain)] if plain else spans

    def _encode(self, spans: list[_Span]) -> tuple[list[int], list[int]]:
        """Token ids, and for each the character of the whole text at which it starts."""
        token_ids: list[int] = []
        starts: list[int] = []
        position = 0
        for span in spans:
            if span.special is not None:
                token_ids.append(span.special)
                starts.append(position)
            else:
                encoding = self._encoder.encode(span.text, add_special_tokens=False)
                token_ids.extend(encoding.ids)
                starts.extend(position + start for start, _ in encoding.offsets)
            position += len(span.text)
        return token_ids, starts


def load_tokenizer(folder: Path) -> PromptTokenizer:
    """The tokenizer and chat template of a model folder in Hugging Face's layout.

    Raises:
        TokenizerNotFoundError: tokenizer.json or the chat template is missing.
        ChatTemplateError: the chat template can't be used here.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise TokenizerNotFoundError(folder, "tokenizer.json")
    config_path = folder / "tokenizer_config.json"
    config = json.loads(config_path.read_text("utf-8")) if config_path.is_file() else {}
    source = _chat_template_source(folder, config)
    encoder = tokenizers.Tokenizer.from_file(str(path))
    encoder.encode_special_tokens = True
    encoder.no_truncation()
    encoder.no_padding()
    digest = blake2b(path.read_bytes(), digest_size=_DIGEST_BYTES)
    digest.update(source.encode())
    return PromptTokenizer(encoder, ChatTemplate(source, _named_tokens(config)), digest.hexdigest())


def _chat_template_source(folder: Path, config: dict[str, object]) -> str:
    """Source: transformers 5.19 tokenization_utils_base.py: the file wins over the config."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text("utf-8")
    match config.get("chat_template"):
        case str() as source:
            return source
        case list() as named:
            for entry in named:
                if isinstance(entry, dict) and entry.get("name") == "default":
                    return str(entry["template"])
    raise TokenizerNotFoundError(folder, "chat template")


def _named_tokens(config: dict[str, object]) -> dict[str, str]:
    named: dict[str, str] = {}
    for name in _NAMED_TOKENS:
        match config.get(name):
            case str() as token:
                named[name] = token
            case {"content": str() as token}:
                named[name] = token
    return named


def _segment_characters(
    prompt: Prompt, pieces: list[Piece]
) -> list[tuple[RenderedSegment, int, int]]:
    """Each segment with the characters `start <= i < stop` it takes in the whole text."""
    message_starts: dict[int, int] = {}
    position = 0
    for piece in pieces:
        if piece.message is not None:
            message_starts[piece.message] = position
        position += len(piece.text)
    located = []
    for segment in prompt.segments:
        start = message_starts[segment.message]
        message_starts[segment.message] = stop = start + len(segment.text)
        located.append((segment, start, stop))
    return located


def _first_at(starts: list[int], character: int) -> int:
    """Index of the first token that starts at or after a character.

    Tokens of one multi-byte character share its start, so `starts` never falls.
    """
    return bisect_left(starts, character)
