"""The values of prompt building: volatility, segments, messages, prompts."""

import json
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import IntEnum
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from prompts.records import record

if TYPE_CHECKING:
    from prompts.layout import PromptLayout
    from prompts.stems import PromptStem

DIGEST_BYTES = 16


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


@record
class ToolCall:
    """A call that the model made; `arguments` is JSON text, byte for byte as first seen."""

    id: str
    name: str
    arguments: str


@record
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


@record
class Tool:
    """A tool that the model may call; `json` is the canonical text of OpenAI's whole tool object.

    `prompts.canonical_tools` makes them.
    """

    name: str
    json: str


@record
class PromptDocument:
    """A document, or a passage of one, as a prompt shows it."""

    name: str
    text: str


@record
class DocumentPlace:
    """A document in a segment's text: characters `start <= i < stop`, from its name on."""

    name: str
    start: int
    stop: int


@record
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


@record
class Prompt:
    """One rendered template: what is sent, before the model's chat template wraps it.

    `tools` are in order of their names. Chat templates put them before or into the first message,
    so that they change as seldom as `tools_volatility` says.
    """

    template: str
    segments: tuple[RenderedSegment, ...]
    tools: tuple[Tool, ...] = ()
    tools_volatility: Volatility = Volatility.STATIC
    # Put together once: a request's way asks for them half a dozen times.
    _messages: "tuple[Message, ...] | None" = field(
        default=None, init=False, compare=False, repr=False
    )
    _fingerprint: str | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Neighbouring segments of one message, joined; expanded messages as they are."""
        if self._messages is None:
            object.__setattr__(self, "_messages", tuple(_joined(self.segments)))
        assert self._messages is not None
        return self._messages

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
        if self._fingerprint is None:
            object.__setattr__(self, "_fingerprint", self._made_fingerprint())
        assert self._fingerprint is not None
        return self._fingerprint

    def with_last(self, segment: RenderedSegment) -> "Prompt":
        """The prompt with another last segment: a conversation that differs in its last message,
        or goes on from there."""
        made = Prompt(
            template=self.template,
            segments=(*self.segments[:-1], segment),
            tools=self.tools,
            tools_volatility=self.tools_volatility,
        )
        shared = len(self.segments[-1].expanded) - 1
        known = self._messages or self.messages
        object.__setattr__(made, "_messages", (*known[:-1], *segment.expanded[shared:]))
        if segment.volatility is not Volatility.STATIC:
            object.__setattr__(made, "_fingerprint", self._fingerprint or self.fingerprint)
        return made

    def _made_fingerprint(self) -> str:
        digest = blake2b(digest_size=DIGEST_BYTES)
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


def _joined(segments: Sequence[RenderedSegment]) -> Iterator[Message]:
    for _, group in groupby(segments, key=attrgetter("message")):
        first, *others = group
        if first.expanded:
            yield from first.expanded
        else:
            content = "".join([first.text, *(other.text for other in others)])
            yield Message(role=first.role, content=content)


@record
class SegmentTokens:
    """Where a segment lies in the prompt's token ids: `start <= i < stop`.

    A token that straddles a seam belongs to the segment it starts in.
    """

    segment: RenderedSegment
    start: int
    stop: int


@record
class TokenizedPrompt:
    """A prompt with the token ids that the engine will see.

    `packed` has the same ids as unsigned 32-bit numbers in the machine's byte order. `layout` knows
    where the documents and messages within segments lie; None where nobody kept it. `stem` is there
    where only the last message's text was new.
    """

    prompt: Prompt
    token_ids: tuple[int, ...]
    ranges: tuple[SegmentTokens, ...]
    packed: bytes = field(default=b"", compare=False, repr=False)
    layout: "PromptLayout | None" = field(default=None, compare=False, repr=False)
    stem: "PromptStem | None" = field(default=None, compare=False, repr=False)

    @property
    def tokens(self) -> int:
        """How many ids it has."""
        return len(self.token_ids)

    def ids_from(self, start: int) -> Sequence[int]:
        """The ids from one on, of which there may be few among many."""
        return self.token_ids[start:]

    @property
    def cuts(self) -> Iterable[int]:
        """Characters at which the text was divided when it was encoded, as far as it is known."""
        return self.layout.cuts if self.layout is not None else ()

    @property
    def scaffold_tokens(self) -> int:
        """Leading tokens of static segments."""
        stop = scaffold_stop(self.ranges)
        return self.ranges[-1].stop if stop is None and self.ranges else stop or 0

    @property
    def digest(self) -> str:
        """Hex digest of the token ids; beside the fingerprint, one for each tokenizer."""
        if self.packed and sys.byteorder == "little":
            return self.hashed().hexdigest()
        return token_digest(self.token_ids)

    def hashed(self) -> blake2b:
        """A digest of the packed ids, to be gone on with."""
        if self.stem is None:
            return blake2b(self.packed, digest_size=DIGEST_BYTES)
        digest = self.stem.hashed.copy()
        digest.update(self.packed[len(self.stem.packed) :])
        return digest


def scaffold_stop(ranges: Iterable[SegmentTokens]) -> int | None:
    """Where the leading static segments end; None where there is no other behind them."""
    tokens = 0
    for part in ranges:
        if part.segment.volatility is not Volatility.STATIC:
            return tokens
        tokens = part.stop
    return None


def token_digest(token_ids: Sequence[int]) -> str:
    """Hex digest of token ids."""
    packed = struct.pack(f"<{len(token_ids)}I", *token_ids)
    return blake2b(packed, digest_size=DIGEST_BYTES).hexdigest()
