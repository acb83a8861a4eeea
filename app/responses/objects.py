"""The parts of a response object: its frame, its output items, its usage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.responses.bodies import FunctionTool, ResponsesRequest, TextFormat

JSONObject = dict[str, Any]

NO_LOGPROBS: list[Any] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What was looked for before the answer, and what was found.

    Attributes:
        queries: empty where the whole collection is shown and nothing was looked for.
        results: in OpenAI's shape; None where the client didn't ask for them.
    """

    queries: Sequence[str]
    results: Sequence[JSONObject] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a response object has from its request; the rest is written while it is answered."""

    id: str
    model: str
    created_at: int
    request: ResponsesRequest

    def item_id(self, kind: str, place: int) -> str:
        """An id for an output item, e.g. `msg_…`."""
        digits = self.id.rsplit("_", 1)[-1]
        return f"{kind}_{digits}{place:02d}"

    def response(self, status: str, output: list[JSONObject]) -> JSONObject:
        """The response as of now. What isn't known is null."""
        request = self.request
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "completed_at": None,
            "status": status,
            "background": request.background is True,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": request.extras.get("max_tool_calls"),
            "metadata": dict(request.metadata or {}),
            "model": self.model,
            "output": output,
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "conversation": {"id": request.conversation_id} if request.conversation_id else None,
            "previous_response_id": request.previous_response_id,
            "prompt": request.prompt.model_dump() if request.prompt else None,
            "prompt_cache_key": request.prompt_cache_key,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": request.safety_identifier,
            "service_tier": "default",
            "store": request.is_stored,
            "temperature": request.temperature,
            "text": {"format": _format(request.text.format)},
            "tool_choice": request.tool_choice or "auto",
            "tools": [tool_object(tool) for tool in request.tools],
            "top_logprobs": 0,
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": request.user,
        }


def tool_object(tool: Any) -> JSONObject:
    """A tool as the response tells it; null where the client said nothing."""
    if isinstance(tool, FunctionTool):
        return tool.model_dump()
    told: JSONObject = tool.model_dump()
    told["max_num_results"] = tool.max_num_results
    return told


def search_item(item_id: str, search: Search, *, status: str = "completed") -> JSONObject:
    """The output item of a search."""
    is_done = status == "completed"
    return {
        "id": item_id,
        "type": "file_search_call",
        "status": status,
        "queries": list(search.queries),
        "results": list(search.results) if is_done and search.results is not None else None,
    }


def text_part(text: str, annotations: list[JSONObject]) -> JSONObject:
    """A message's text."""
    return {
        "type": "output_text",
        "text": text,
        "annotations": annotations,
        "logprobs": NO_LOGPROBS,
    }


def message_item(item_id: str, status: str, content: list[JSONObject]) -> JSONObject:
    """The model's message."""
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def call_item(item_id: str, status: str, call: Mapping[str, str]) -> JSONObject:
    """A call of one of the client's functions."""
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call["call_id"],
        "name": call["name"],
        "arguments": call["arguments"],
    }


def reasoning_item(item_id: str, status: str, text: str) -> JSONObject:
    """What the model thought before it answered."""
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {
        "id": item_id,
        "type": "reasoning",
        "status": status,
        "summary": [],
        "content": content,
        "encrypted_content": None,
    }


def usage_object(reported: Mapping[str, Any], block: Mapping[str, Any]) -> JSONObject:
    """Tokens of prompt and answer.

    `cached_tokens` is null where the engine didn't tell it. What was computed of the prompt enters
    the engine's cache, in whole pages: that is `cache_write_tokens`.
    """
    prompt, completion = reported.get("prompt_tokens"), reported.get("completion_tokens")
    cached = block.get("cached_tokens")
    written = None if prompt is None or cached is None else prompt - cached
    total = None if prompt is None or completion is None else prompt + completion
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens(reported)},
        "total_tokens": total,
    }


def reasoning_tokens(reported: Mapping[str, Any]) -> int | None:
    """What the model wrote before its answer; None where the engine didn't tell it."""
    details = reported.get("completion_tokens_details") or {}
    told: int | None = details.get("reasoning_tokens", reported.get("reasoning_tokens"))
    return told


def citation(found: Mapping[str, Any], text: str) -> JSONObject:
    """An answer's citation as an annotation; `index` is where in the text it stands."""
    return {
        "type": "file_citation",
        "index": found.get("index") if found.get("index") is not None else len(text),
        "file_id": found["file_id"],
        "filename": found["document"],
    }


def _format(wanted: TextFormat) -> JSONObject:
    if wanted.type != "json_schema":
        return {"type": wanted.type}
    return wanted.model_dump(by_alias=True)
