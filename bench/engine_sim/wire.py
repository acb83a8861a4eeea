"""The JSON that the engine sends, field by field as a real one sent it. Pure.

Source: sglang 0.5.23 entrypoints/openai/protocol.py and sse_utils.py; recorded answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from bench.engine_sim.config import CallConfig
from bench.engine_sim.request import EngineRequest, FinishReason

DONE = b"data: [DONE]\n\n"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What all parts of one chat answer repeat."""

    id: str
    model: str
    created: int


def sse(data: Json) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def error(message: str, *, type: str = "BadRequestError", status: int = 400) -> Json:
    return {"object": "error", "message": message, "type": type, "param": None, "code": status}


def usage(requests: list[EngineRequest], *, cache_report: bool) -> Json:
    """Tokens of one prompt and its answers; what was cached is unknown without a cache report."""
    prompt, cached = len(requests[0].prompt), requests[0].cached.tokens
    completion = sum(len(request.output) for request in requests)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached} if cache_report else None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def cached_details(request: EngineRequest, backend: str | None) -> Json | None:
    """Cached tokens by source; the engine leaves them out when there are none."""
    if request.cached.tokens == 0:
        return None
    details: Json = dict(request.cached.by_source())
    return details | {"storage_backend": backend} if request.cached.storage is not None else details


def chat(
    head: Head,
    requests: list[EngineRequest],
    *,
    cache_report: bool,
    sglext: Json | None,
    calls: Sequence[Json] = (),
) -> Json:
    """A whole answer; `requests` has one for each choice, each of which is the `calls` if any."""
    body = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [_choice(index, request, calls) for index, request in enumerate(requests)],
        "usage": usage(requests, cache_report=cache_report),
        "metadata": weights(len(requests[0].output)),
    }
    return body | {"sglext": sglext} if sglext else body


def chunk(head: Head, choices: list[Json], **fields: Json | None) -> Json:
    """One part of a streamed answer."""
    return {
        "id": head.id,
        "object": "chat.completion.chunk",
        "created": head.created,
        "model": head.model,
        "choices": choices,
        **fields,
    }


def delta(index: int, request: EngineRequest | None = None, **said: Any) -> Json:
    """A choice of a part; `request` is given at its end, for the reason."""
    finish = None if request is None else request.finish
    return {
        "index": index,
        "delta": {"reasoning_content": None, **said},
        "logprobs": None,
        "finish_reason": finish,
        "matched_stop": None if request is None else request.matched_stop,
    }


def text_completion(head: Head, choices: list[Json], **fields: Json | None) -> Json:
    """A whole text completion, or a part of a streamed one."""
    return {
        "id": head.id,
        "object": "text_completion",
        "created": head.created,
        "model": head.model,
        "choices": choices,
        **fields,
    }


def text_choice(index: int, text: str, request: EngineRequest | None = None, **ids: Any) -> Json:
    """A choice of a text completion; `request` is given at its end, for the reason."""
    return {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": None if request is None else request.finish,
        "matched_stop": None if request is None else request.matched_stop,
        **ids,
    }


def generated(request: EngineRequest, *, e2e_s: float, backend: str | None) -> Json:
    """An answer of `/generate`, as far as it has come."""
    return {
        "text": request.text.text[: request.text.sayable],
        "output_ids": list(request.output),
        "meta_info": {
            "id": request.rid,
            "finish_reason": _finish(request),
            "prompt_tokens": len(request.prompt),
            "weight_version": "default",
            "completion_tokens": len(request.output),
            "cached_tokens": request.cached.tokens,
            "cached_tokens_details": cached_details(request, backend),
            "e2e_latency": e2e_s,
        },
    }


def tool_call(call: CallConfig, request: EngineRequest, index: int) -> Json:
    """A call as the engine's parser tells it."""
    return {
        "id": f"call_{request.rid}_{index}",
        "index": index,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _choice(index: int, request: EngineRequest, calls: Sequence[Json]) -> Json:
    message: Json = {
        "role": "assistant",
        "content": None if calls else request.text.text,
        "reasoning_content": None,
    }
    if calls:
        message["tool_calls"] = list(calls)
    stopped = request.finish is FinishReason.STOP
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if calls and stopped else request.finish,
        "matched_stop": request.matched_stop,
    }


def _finish(request: EngineRequest) -> Json | None:
    match request.finish:
        case None:
            return None
        case FinishReason.STOP:
            return {"type": "stop", "matched": request.matched_stop}
        case FinishReason.LENGTH:
            return {"type": "length", "length": request.max_new_tokens}
        case FinishReason.ABORT:
            return {"type": "abort", "message": "Aborted by AbortReq."}


def weights(completion_tokens: int) -> Json:
    version = {"version": "default", "start": 0, "end": completion_tokens}
    return {"weight_version": "default", "weight_versions": [version]}
