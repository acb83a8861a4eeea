"""What of the Responses API isn't served, each with a sentence that says what to do instead."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from app.errors import InvalidRequestError, RefusedFieldError
from app.responses.bodies import ResponsesRequest
from app.schemas import FORWARDED_FIELDS

# Taken, and nothing is done about them: they steer OpenAI's own service.
_IGNORED = frozenset({
    "max_tool_calls", "prompt_cache_options", "prompt_cache_retention", "service_tier",
})  # fmt: skip
# What chat completions take beside the fields that have another name here.
_SAMPLING = FORWARDED_FIELDS - {"response_format", "logprobs", "n", "top_logprobs"}
_REFUSED: Mapping[str, str] = {
    "context_management": "the gateway never rewrites an input; make a conversation, and say in "
    "its foreword.compaction when that is compacted",
    "reasoning": "the model reasons as its chat template has it",
    "top_logprobs": "log probabilities are told by /v1/chat/completions only",
}
INCLUDES = ("file_search_call.results",)


def check_request(request: ResponsesRequest, allowed: Collection[str] = ()) -> None:
    """Refuse what would be left undone. `allowed` are fields that the operator lets through.

    Raises:
        RefusedFieldError, InvalidRequestError: name the field and say what to do.
    """
    for field, value in request.extras.items():
        _check_extra(field, value, allowed)
    for name in request.include or ():
        if name not in INCLUDES:
            problem = f"include: {name!r} is not served; there is {INCLUDES[0]}"
            raise InvalidRequestError(problem, param="include")
    if request.conversation_id is not None and request.previous_response_id is not None:
        problem = "conversation and previous_response_id exclude each other; give one of them"
        raise InvalidRequestError(problem, param="previous_response_id")
    if request.background and request.store is False:
        problem = "a response of the background is stored until it is fetched; leave store out"
        raise InvalidRequestError(problem, param="store")
    if request.text.verbosity not in (None, "medium"):
        problem = "the model can't be told a verbosity; say it in the instructions"
        raise InvalidRequestError(problem, param="text.verbosity")
    _check_search(request)


def _check_extra(field: str, value: Any, allowed: Collection[str]) -> None:
    if value is None or field in _IGNORED or field in _SAMPLING or field in allowed:
        return
    harmless = _HARMLESS.get(field)
    if harmless is not None and harmless(value):
        return
    if field == "truncation":
        reason = "dropping the beginning of a conversation gives up all re-use; shorten the input"
        raise RefusedFieldError(field, reason)
    if field == "stream_options":
        raise RefusedFieldError(field, "streams aren't obfuscated here")
    raise RefusedFieldError(field, _REFUSED.get(field, "it is not a field that is served here"))


# Values by which a field asks for nothing.
_HARMLESS: Mapping[str, Callable[[Any], bool]] = {
    "context_management": lambda value: not value,
    "reasoning": lambda value: isinstance(value, dict) and not any(value.values()),
    "stream_options": lambda value: not value or value == {"include_obfuscation": False},
    "top_logprobs": lambda value: value == 0,
    "truncation": lambda value: value == "disabled",
}


def _check_search(request: ResponsesRequest) -> None:
    tool, options = request.file_search, request.foreword
    searches = [tool for tool in request.tools if tool.type == "file_search"]
    if len(searches) > 1 or (tool is not None and len(tool.vector_store_ids) != 1):
        raise InvalidRequestError(
            "one vector store can be answered from at a time: a prompt opens with one collection, "
            "under a salt of that collection alone; put the files into one vector store, or ask "
            "once for each",
            param="tools",
        )
    ranking = tool.ranking_options if tool else None
    if ranking is not None and ranking.hybrid_search is not None:
        problem = "both searches weigh the same here; leave hybrid_search out"
        raise InvalidRequestError(problem, param="tools")
    if tool is not None and options is not None and options.collection is not None:
        problem = "the collection is named by file_search already; leave foreword.collection out"
        raise InvalidRequestError(problem, param="foreword.collection")
    if request.prompt is not None and options is not None and options.template is not None:
        problem = "the template is named by prompt already; leave foreword.template out"
        raise InvalidRequestError(problem, param="foreword.template")
