"""The values of prompt building: volatility, segments, messages, prompts."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompts.layout import PromptLayout

_DIGEST_BYTES = 16


class Volatility(IntEnum):
    """How often a segment's bytes change; a smaller value changes less often."""

    STATIC = 0
    TENANT = 1
    COLLECTION = 2
    SESSION = 3
    TURN = 4

    @property
    def label(self) -> str:
        """The word used in template files."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model made; `arguments` is JSON text, byte for byte as first seen."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message; `content` is text.

    An answer may hold `tool_calls` and `reasoning`; a tool's result names its call in
    `tool_call_id` and perhaps the tool in `name`.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None

    @property
    def spelled(self) -> str:
        """All of it in one text: equal texts, equal messages."""
        calls = [[call.id, call.name, call.arguments] for call in self.tool_calls]
        optional = [self.tool_call_id, self.name, self.reasoning]
        return json.dumps([self.role, self.content, calls, *optional])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the model may call; `json` is the canonical text of OpenAI's whole tool object.

    `prompts.canonical_tools` makes them.
    """

    name: str
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDocument:
    """A document, or a passage of one, as a prompt shows it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPlace:
    """A document in a segment's text: characters `start <= i < stop`, from its name on."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSegment:
    """A segment with its variables filled in.

    `message` is the index of the message that the text belongs to. A segment that expands a
    conversation has no text and role of its own but whole messages in `expanded`; `message` is then
    the index of the first of them. `documents` says where documents lie in the text.
    """

    id: str
    role: str
    volatility: Volatility
    text: str
    message: int
    expanded: tuple[Message, ...] = ()
    documents: tuple[DocumentPlace, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One rendered template: what is sent, before the model's chat template wraps it.

    `tools` are in order of their names. Chat templates put them before or into the first message,
    so that they change as seldom as `tools_volatility` says.
    """

    template: str
    segments: tuple[RenderedSegment, ...]
    tools: tuple[Tool, ...] = ()
    tools_volatility: Volatility = Volatility.STATIC

    @property
    def messages(self) -> tuple[Message, ...]:
        """Neighbouring segments of one message, joined; expanded messages as they are."""
        messages: list[Message] = []
        for _, group in groupby(self.segments, key=attrgetter("message")):
            first, *others = group
            if first.expanded:
                messages += first.expanded
            else:
                content = "".join([first.text, *(other.text for other in others)])
                messages.append(Message(role=first.role, content=content))
        return tuple(messages)

    @property
    def scaffold(self) -> tuple[RenderedSegment, ...]:
        """The leading static segments."""
        leading: list[RenderedSegment] = []
        for segment in self.segments:
            if segment.volatility is not Volatility.STATIC:
                break
            leading.append(segment)
        return tuple(leading)

    @property
    def fingerprint(self) -> str:
        """Hex digest of the scaffold's roles and bytes, and of the tools where they are static.

        Equal fingerprints, equal scaffold.
        """
        digest = blake2b(digest_size=_DIGEST_BYTES)
        if self.tools_volatility is Volatility.STATIC:
            # Canonical JSON holds no line end, so that none can be mistaken for another's.
            digest.update("".join([f"{tool.json}\n" for tool in self.tools]).encode())
        for segment in self.scaffold:
            text = segment.text.encode()
            digest.update(f"{segment.message}\0{segment.role}\0{len(text)}\0".encode())
            digest.update(text)
            for message in segment.expanded:
                digest.update(message.spelled.encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTokens:
    """Where a segment lies in the prompt's token ids: `start <= i < stop`.

    A token that straddles a seam belongs to the segment it starts in.
    """

    segment: RenderedSegment
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPrompt:
    """A prompt with the token ids that the engine will see.

    `packed` has the same ids as unsigned 32-bit numbers in the machine's byte order. `layout` knows
    where the documents and messages within segments lie; None where nobody kept it.
    """

    prompt: Prompt
    token_ids: tuple[int, ...]
    ranges: tuple[SegmentTokens, ...]
    packed: bytes = field(default=b"", compare=False, repr=False)
    layout: "PromptLayout | None" = field(default=None, compare=False, repr=False)


def token_digest(token_ids: Sequence[int]) -> str:
    """Hex digest of token ids; beside the fingerprint, one for each tokenizer."""
    packed = struct.pack(f"<{len(token_ids)}I", *token_ids)
    return blake2b(packed, digest_size=_DIGEST_BYTES).hexdigest()
