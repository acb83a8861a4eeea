"""Prompts to token ids, with the model's own tokenizer, exactly as the engine would.

The text between two control tokens is encoded as if in one go, so that merges over the seams of
segments come out as they would for the whole text; what was encoded before is not encoded again.
Only the chat template's own words may spell control tokens; in text from users, tools and documents
the same characters are plain text.
"""

import json
import sys
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import tokenizers
from tokenizers import processors

from prompts.chat_shapes import Piece
from prompts.chat_template import ChatTemplate
from prompts.encoding import encoded
from prompts.errors import TokenizerNotFoundError, TooManyTokensError
from prompts.layout import PlacedSpan, PromptLayout, cuts_of
from prompts.segments import (
    Message,
    Prompt,
    SegmentTokens,
    TokenizedPrompt,
    Tool,
)
from prompts.token_bound import room_for
from prompts.token_cache import DEFAULT_CAPACITY_TOKENS, TokenCache
from prompts.token_places import prompt_places
from prompts.token_runs import ID_BYTES, RunEncoder
from prompts.token_spans import ControlTokens

_DIGEST_BYTES = 16
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")


class ControlPlace(NamedTuple):
    """A control token of the chat template: its first character, and its index in the ids."""

    text: str
    character: int
    token: int


@dataclass(frozen=True, slots=True)
class EncodedPieces:
    """Token ids of a rendered chat. Tokens `indices[i]` and later start at `characters[i]`."""

    token_ids: list[int] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    controls: list[ControlPlace] = field(default_factory=list)
    spans: list[PlacedSpan] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)

    def index_at(self, character: int) -> int:
        """Index of the first token that starts at or after a character of the text."""
        return self.indices[bisect_left(self.characters, character)]


class PromptTokenizer:
    """A model's tokenizer together with its chat template. Threads may share one."""

    def __init__(
        self,
        encoder: tokenizers.Tokenizer,
        chat: ChatTemplate,
        identity: str,
        *,
        cache_tokens: int = DEFAULT_CAPACITY_TOKENS,
    ) -> None:
        """Takes the encoder over and changes how it treats control tokens.

        `identity` is a digest of the tokenizer and the chat template.
        """
        self.identity = identity
        self.chat = chat
        self.control = ControlTokens(encoder, chat.source)
        _make_plain(encoder, self.control.soft)
        self.encoder = encoder
        self.cache = TokenCache(encoder, capacity_tokens=cache_tokens)
        self.runs = RunEncoder(encoder)

    def count(self, text: str, *, limit: int | None = None) -> int:
        """Tokens of a text by itself, no special token added.

        Raises:
            TooManyTokensError: there are more than the limit, by far.
        """
        if limit is not None and self.cache.bound.is_beyond(text, room_for(limit)):
            raise TooManyTokensError(limit)
        return len(encoded(self.encoder, text).ids)

    def check_count(self, text: str, *, limit: int) -> None:
        """Whether an engine could read a text in which control tokens are what they spell.

        Raises:
            TooManyTokensError: it has more tokens than the limit, by far.
        """
        room, bound = room_for(limit), self.cache.bound
        if not bound.may_be_beyond(len(text), room):
            return
        for span in self.control.spans_of(text):
            is_control = span.control is not None
            room -= 1 if is_control else bound.least_tokens("".join(span.parts), room)
            if room < 0:
                raise TooManyTokensError(limit)

    def spelling(self, token_id: int) -> str | None:
        """A token as its vocabulary spells it; None where there is no such token."""
        spelled: str | None = self.encoder.id_to_token(token_id)
        return spelled

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids, control tokens spelled out."""
        text: str = self.encoder.decode(list(token_ids), skip_special_tokens=False)
        return text

    def special_in(self, text: str, *, of_model: bool = False) -> str | None:
        """The first control token that a text spells, if any.

        In a text `of_model`, tokens that aren't marked special don't count.
        """
        return self.control.first_in(text, of_model=of_model)

    def tokenize(self, prompt: Prompt, *, limit: int | None = None) -> TokenizedPrompt:
        """The ids that the engine gets, and where each segment lies in them.

        Raises:
            ChatTemplateError: the chat template refuses the messages, or hides which text is its
                own.
            TooManyTokensError: there are more than the limit, by far.
        """
        messages = prompt.messages
        pieces = self.chat.pieces(messages, prompt.tools)
        places = prompt_places(prompt, pieces)
        cuts = cuts_of(places.segments)
        encoded = self.encode_pieces(pieces, messages, cuts, limit=limit)
        ranges = tuple(
            SegmentTokens(
                segment=segment, start=encoded.index_at(start), stop=encoded.index_at(stop)
            )
            for segment, start, stop, _ in places.segments
        )
        return TokenizedPrompt(
            prompt=prompt,
            token_ids=tuple(encoded.token_ids),
            ranges=ranges,
            packed=b"".join(encoded.packed),
            layout=PromptLayout(
                segments=places.segments,
                tools=places.tools,
                spans=encoded.spans,
                characters=[span.character for span in encoded.spans],
            ),
        )

    def encode_messages(
        self, messages: Sequence[Message], tools: tuple[Tool, ...] = ()
    ) -> tuple[int, ...]:
        """The ids of messages that no template made.

        Raises:
            ChatTemplateError: as for `tokenize`.
        """
        return tuple(self.encode_pieces(self.chat.pieces(messages, tools), messages).token_ids)

    def encode_pieces(
        self,
        pieces: Sequence[Piece],
        messages: Sequence[Message],
        cuts: Iterable[int] = (),
        *,
        limit: int | None = None,
    ) -> EncodedPieces:
        """Ids of a rendered chat, or of the end of one; places are exact at `cuts`.

        Raises:
            TooManyTokensError: there are more than the limit, by far.
        """
        made = EncodedPieces()
        ids, indices = made.token_ids, made.indices
        most = sys.maxsize if limit is None else room_for(limit)
        for parts, starts, control in self.control.spans(pieces, messages, cuts):
            made.characters.extend(starts)
            first = len(ids)
            if control is not None:
                made.controls.append(ControlPlace(parts[0], starts[0], first))
                made.spans.append(PlacedSpan(starts[0], first, None))
                made.packed.append(control.to_bytes(ID_BYTES, sys.byteorder))
                indices.append(first)
                ids.append(control)
            else:
                room = most - len(ids)
                if room < 0 or self.cache.is_beyond(parts, room):
                    assert limit is not None
                    raise TooManyTokensError(limit)
                encoded = self.cache.encode(parts)
                made.spans.append(PlacedSpan(starts[0], first, encoded))
                made.packed.append(encoded.packed)
                indices.extend([first + seam for seam in encoded.seams])
                ids.extend(encoded.ids)
        made.indices.append(len(made.token_ids))
        return made


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
    digest = blake2b(path.read_bytes(), digest_size=_DIGEST_BYTES)
    digest.update(source.encode())
    return PromptTokenizer(encoder, ChatTemplate(source, _named_tokens(config)), digest.hexdigest())


def _make_plain(encoder: tokenizers.Tokenizer, soft: Iterable[str]) -> None:
    """Text that spells a control token is text to this encoder, and offsets are not trimmed."""
    known = {token.content: token for token in encoder.get_added_tokens_decoder().values()}
    for content in sorted(soft):
        token = known[content]
        marked = tokenizers.AddedToken(
            content,
            special=True,
            normalized=token.normalized,
            lstrip=token.lstrip,
            rstrip=token.rstrip,
            single_word=token.single_word,
        )
        encoder.add_special_tokens([marked])
    encoder.encode_special_tokens = True
    encoder.post_processor = processors.ByteLevel(trim_offsets=False)
    encoder.no_truncation()
    encoder.no_padding()


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
