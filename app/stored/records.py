"""What is stored of conversations and responses."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.conversations import Answered
from prompts import Prompt, PromptTokenizer
from prompts.tool_changes import ToolHistory

JSONObject = dict[str, Any]
_ID_CODE = "I"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidItem:
    """One item of a conversation.

    Attributes:
        position: in the conversation; None where it isn't in one.
        output_ids: with the last item of an answer, all token ids of that answer; packed.
        tokenizer: identity of the one that they are of.
    """

    item: Mapping[str, Any]
    position: int | None = None
    output_ids: bytes | None = None
    tokenizer: str | None = None

    @property
    def id(self) -> str:
        """Of the item."""
        return str(self.item["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When a conversation is compacted, and how much of it stays as it was said.

    Attributes:
        at: share of the model's window that it has to fill first.
        keep: most of the window that what stays may fill.
    """

    at: float
    keep: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What stands for the items up to a position."""

    text: str
    through: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation, without its items.

    Attributes:
        tokens: of the last turn's prompt and answer; None before the first.
        isolated: whether its KV lies under a salt of its own.
    """

    id: str
    tenant: str
    created_at: float
    used_at: float
    metadata: Mapping[str, str]
    compaction: Compaction | None = None
    isolated: bool = False
    forked_from: str | None = None
    tokens: int | None = None
    summary: Summary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response with what it answered."""

    id: str
    tenant: str
    created_at: float
    response: JSONObject
    input: Sequence[JSONObject]
    previous_id: str | None = None
    conversation_id: str | None = None
    output_ids: bytes | None = None
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What a stored conversation brings to its next prompt, beside its words.

    Attributes:
        output_ids: of its answers, in their order; None where they aren't known.
        tokenizer: identity of the one that they are of.
        own_salt: names the conversation whose KV is kept apart; None: it lies with the tenant's.
        tools: what its prompts show of tools; None: unknown.
    """

    output_ids: Sequence[bytes | None] = ()
    tokenizer: str | None = None
    own_salt: str | None = None
    tools: ToolHistory | None = None

    def answered(self, prompt: Prompt, tokenizer: PromptTokenizer) -> Answered | None:
        """What the model answered last, and how it spelled the answers before; None: unknown."""
        if self.tokenizer != tokenizer.identity:
            return None
        places = [at for at, each in enumerate(prompt.messages[:-1]) if each.role == "assistant"]
        # A template may begin with answers of its own.
        ours = places[max(0, len(places) - len(self.output_ids)) :]
        known = [
            (place, unpacked(ids))
            for place, ids in zip(ours, self.output_ids[-len(ours) :], strict=True)
            if ids is not None
        ]
        if not known:
            return None
        *earlier, (last, ids) = known
        return Answered(
            tokenizer=tokenizer.identity,
            messages=tuple(prompt.messages[:last]),
            tools=prompt.tools,
            output_ids=ids,
            answer=prompt.messages[last],
            held_bytes=0,
            held_digest=b"",
            transcript=None,
            own=tuple(earlier),
            cuts=(),
        )


def may_be_id(text: str) -> bool:
    """Whether an id could be spelled so; databases don't even look for some characters."""
    return text.isascii() and text.isprintable()


def packed(ids: Sequence[int]) -> bytes:
    """Token ids as they are stored."""
    return array(_ID_CODE, ids).tobytes()


def unpacked(data: bytes) -> tuple[int, ...]:
    """Stored token ids."""
    return tuple(array(_ID_CODE, data))


def with_positions(items: Sequence[SaidItem], first: int) -> list[SaidItem]:
    """The items, placed one after the other."""
    return [replace(item, position=first + number) for number, item in enumerate(items)]


@dataclass(slots=True)
class Said:
    """All that the next prompt of a conversation shows of it."""

    items: list[SaidItem] = field(default_factory=list)
    summary: Summary | None = None
