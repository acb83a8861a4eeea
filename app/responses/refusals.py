"""What of the Responses API isn't served, each with a sentence that says what to do instead."""

from collections.abc import Collection, Iterable
from typing import Any

from app.errors import InvalidRequestError, RefusedFieldError
from app.openai_fields import IGNORED_FIELDS, is_known, refusal
from app.responses.bodies import ResponsesRequest
from app.sampling_limits import check_field
from app.schemas import FORWARDED_FIELDS
from app.tool_names import check_tool_names

# Taken, and checked for what they may be; a response without an agent makes one call, its search.
_CHECKED = IGNORED_FIELDS | {"max_tool_calls"}
# What chat completions take beside the fields that have another name here.
_SAMPLING = FORWARDED_FIELDS - {"response_format", "logprobs", "n", "top_logprobs"}
INCLUDES = ("file_search_call.results",)


def check_request(request: ResponsesRequest, allowed: Collection[str] = ()) -> None:
    """Refuse what would be left undone. `allowed` are fields that the operator lets through.

    Raises:
        RefusedFieldError, InvalidRequestError: name the field and say what to do.
    """
    for field, value in request.extras.items():
        _check_extra(field, value, allowed)
    check_includes(request.include or ())
    if request.conversation_id is not None and request.previous_response_id is not None:
        problem = "conversation and previous_response_id exclude each other; give one of them"
        raise InvalidRequestError(problem, param="previous_response_id")
    if request.background and request.store is False:
        problem = "a response of the background is stored until it is fetched; leave store out"
        raise InvalidRequestError(problem, param="store")
    if request.text.verbosity not in (None, "medium"):
        problem = "the model can't be told a verbosity; say it in the instructions"
        raise InvalidRequestError(problem, param="text.verbosity")
    check_tool_names(
        (f"tools.{place}.name", tool.name)
        for place, tool in enumerate(request.tools)
        if tool.type == "function"
    )
    _check_search(request)


def check_includes(names: Iterable[str]) -> None:
    """
    Raises:
        InvalidRequestError: one of them isn't served.
    """
    for name in names:
        if name not in INCLUDES:
            problem = f"include: {name!r} is not served; there is {INCLUDES[0]}"
            raise InvalidRequestError(problem, param="include")


def _check_extra(field: str, value: Any, allowed: Collection[str]) -> None:
    if field in _CHECKED:
        check_field(field, value)
        return
    if field in _SAMPLING or field in allowed:
        return
    reason = refusal(field, value)
    if reason is None and is_known(field):
        return
    raise RefusedFieldError(field, reason or "it is not a field that is served here")


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
    if request.searches and request.functions:
        raise InvalidRequestError(
            "tools: file_search and functions can't be given together: the gateway searches before "
            "the model is asked, and a prompt that opens with documents shows no tools; give "
            "functions alone, one of which asks POST /v1/vector_stores/{id}/search, or an agent",
            param="tools",
        )
    if request.searches and request.extras.get("max_tool_calls") == 0:
        problem = "max_tool_calls: a search is one call; leave file_search out, or allow it"
        raise InvalidRequestError(problem, param="max_tool_calls")
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
