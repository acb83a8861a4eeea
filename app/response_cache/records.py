"""An answer as it is kept. Pure."""

from dataclasses import dataclass
from typing import Any

import orjson

JSONObject = dict[str, Any]

# Sums of an answer that don't depend on what was re-used when it was made.
_USAGE = (
    "prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details",
    "reasoning_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """What a model said to one request.

    Attributes:
        request_id: of the request that it was made for.
        made_at: seconds since 1970.
        usage: of that request, without what was re-used for it.
    """

    request_id: str
    made_at: float
    content: str
    reasoning: str | None
    finish_reason: str
    usage: JSONObject

    def packed(self) -> bytes:
        """As it is stored."""
        return orjson.dumps([self.content, self.reasoning, self.finish_reason, self.usage])

    @classmethod
    def unpacked(cls, data: bytes, *, request_id: str, made_at: float) -> "KeptAnswer":
        """From how it is stored."""
        content, reasoning, finish_reason, usage = orjson.loads(data)
        return cls(
            request_id=request_id,
            made_at=made_at,
            content=content,
            reasoning=reasoning,
            finish_reason=finish_reason,
            usage=usage,
        )

    def message(self) -> JSONObject:
        """As chat completions have it."""
        return {
            "role": "assistant",
            "content": self.content,
            "reasoning_content": self.reasoning,
            "tool_calls": None,
        }

    def whole(self) -> JSONObject:
        """A chat completion, without what its request gives it."""
        choice = {
            "index": 0,
            "message": self.message(),
            "logprobs": None,
            "finish_reason": self.finish_reason,
        }
        return {"object": "chat.completion", "choices": [choice], "usage": self.usage}

    def parts(self) -> list[JSONObject]:
        """The same as a stream's chunks: who speaks, what is said, and how it ends."""
        deltas: list[JSONObject] = [{"role": "assistant", "content": ""}]
        if self.reasoning:
            deltas.append({"reasoning_content": self.reasoning})
        if self.content:
            deltas.append({"content": self.content})
        ends = [None] * len(deltas) + [self.finish_reason]
        return [
            {
                "object": "chat.completion.chunk",
                "choices": [
                    {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
                ],
            }
            for delta, finish_reason in zip([*deltas, {}], ends, strict=True)
        ]


def kept_usage(reported: JSONObject | None) -> JSONObject | None:
    """What is kept of an answer's usage; None where its tokens aren't known."""
    known = {name: (reported or {}).get(name) for name in _USAGE}
    if known["prompt_tokens"] is None or known["completion_tokens"] is None:
        return None
    return {name: value for name, value in known.items() if value is not None}
