"""Which requests are mirrored, and what is sent of them. Pure."""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Literal

import orjson

from app.schemas import FORWARDED_FIELDS, ChatMessage
from prompts import Message

Form = Literal["ids", "messages"]

# Of what the live engine is sent: whose request it is there, and its turn among that engine's.
_LIVE_ONLY = frozenset({"rid", "cache_salt", "priority"})
_SALT_CHARACTERS = 32
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAnswer:
    """What the client got; what isn't known is None.

    Attributes:
        ttft_s, e2e_s: from the sending to the engine; `ttft_s` is None for whole answers.
        said: the answer, as `said_of` has it.
    """

    request_id: str
    tenant: str
    template: str
    ttft_s: float | None
    e2e_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    said: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCopy:
    """A request that is to be mirrored.

    Attributes:
        conversation: its conversation's key, the same for all turns.
        is_first: whether it begins its conversation.
        greedy: whether its answer should be the same each time.
    """

    conversation: str
    is_first: bool
    streams: bool
    greedy: bool
    live: LiveAnswer
    body: bytes = field(repr=False)

    @property
    def size_bytes(self) -> int:
        """About what it holds."""
        return len(self.body) + len(self.live.said)


def conversation_key(salt: str, template: str, messages: Iterable[ChatMessage]) -> str:
    """The same for all turns of a conversation: what comes before its first answer.

    Clients send all of it again with each turn. The salt is a secret's, so nobody can guess which
    conversations are drawn, and differs by tenant.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in (salt, template, *_opening(messages)):
        text = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def _opening(messages: Iterable[ChatMessage]) -> Iterable[str]:
    for message in messages:
        if message.role == "assistant":
            return
        yield message.role
        yield message.text


def is_drawn(conversation: str, fraction: float) -> bool:
    """Whether a conversation is among the sample: all of its turns are, or none."""
    return int(conversation[:16], 16) < fraction * 2**64


def shadow_salt(secret: bytes, salt: str) -> str:
    """The salt of a live salt's copies: no tenant's own, and another for each of them.

    Live salts are made of JSON lists under the same secret, so none can be made of this.
    """
    digest = hmac.digest(secret, b"foreword: shadow " + salt.encode(), sha256)
    return digest.hex()[:_SALT_CHARACTERS]


def is_greedy(body: Mapping[str, object]) -> bool:
    """Whether the model says its likeliest token each time, so that answers can be compared."""
    return body.get("temperature") == 0 or body.get("top_k") == 1


def ids_body(live: Mapping[str, object], *, salt: str, model: str | None) -> bytes:
    """What another SGLang engine with the same tokenizer is sent: the same ids, salted anew."""
    body = {name: value for name, value in live.items() if name not in _LIVE_ONLY}
    body["cache_salt"] = salt
    if model is not None:
        body["model"] = model
    return orjson.dumps(body)


def messages_body(
    live: Mapping[str, object], *, model: str, salt_field: str | None, salt: str
) -> bytes:
    """What any other OpenAI-compatible endpoint is sent: the messages and the client's fields."""
    taken = FORWARDED_FIELDS | {"messages", "max_tokens", "stream"}
    body = {name: value for name, value in live.items() if name in taken}
    body["model"] = model
    if live.get("stream"):
        body["stream_options"] = {"include_usage": True}
    if salt_field is not None:
        body[salt_field] = salt
    return orjson.dumps(body)


def said_of(message: Message) -> str:
    """An answer as one text; without the ids of tool calls, which are drawn."""
    calls = (f"{call.name} {call.arguments}" for call in message.tool_calls)
    parts = (message.reasoning, message.content, *calls)
    return "\0".join(part for part in parts if part)


def common_share(ours: str, theirs: str) -> float:
    """Share of the longer text that both begin with; 1 where they are equal."""
    longer = max(len(ours), len(theirs))
    low, high = 0, min(len(ours), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low / longer if longer else 1.0
