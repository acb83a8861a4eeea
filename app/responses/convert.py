"""A Responses request as the chat completion that answers it."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import InvalidRequestError
from app.responses.bodies import PromptReference, ResponsesRequest, TextFormat
from app.responses.input_items import messages_of
from app.schemas import FORWARDED_FIELDS, ChatCompletionRequest, ForewordOptions

_CHOICES = ("auto", "none", "required")


def chat_request(
    request: ResponsesRequest,
    allowed: frozenset[str],
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> ChatCompletionRequest:
    """The same question in chat completions' words.

    `allowed` are fields that the operator lets through to the engine; `messages` are those of the
    input, with what was said before where that is stored.

    Raises:
        InvalidRequestError: there is nothing to answer, or an item can't be taken.
    """
    if messages is None:
        messages = messages_of(request.input)
    if not messages or (messages[-1]["role"] == "assistant" and not request.input):
        raise InvalidRequestError("there is nothing to answer: give an input", param="input")
    if request.instructions:
        messages = [{"role": "system", "content": request.instructions}, *messages]
    body: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        "stream": bool(request.stream),
        "max_completion_tokens": request.max_output_tokens,
        "foreword": _options(request),
    }
    if request.stream:
        body["stream_options"] = {"include_usage": True}
    sampling = {"temperature": request.temperature, "top_p": request.top_p}
    body |= {name: value for name, value in sampling.items() if value is not None}
    body |= _format(request.text.format) | _tools(request)
    passed = FORWARDED_FIELDS | allowed
    body |= {name: value for name, value in request.extras.items() if name in passed}
    return ChatCompletionRequest.model_validate(body)


def _options(request: ResponsesRequest) -> ForewordOptions | None:
    """Foreword's own fields: the template of `prompt`, the collection of `file_search`."""
    given: dict[str, Any] = {}
    if request.prompt is not None:
        given |= _template(request, request.prompt)
    tool = request.file_search
    if tool is not None and request.searches:
        threshold = tool.ranking_options.score_threshold if tool.ranking_options else None
        given["collection"] = tool.vector_store_ids[0]
        found = {
            "filters": tool.filters,
            "passages": tool.max_num_results,
            "score_threshold": threshold,
        }
        given |= {name: value for name, value in found.items() if value is not None}
    if not given:
        return request.foreword
    return (request.foreword or ForewordOptions()).model_copy(update=given)


def _template(request: ResponsesRequest, prompt: PromptReference) -> dict[str, Any]:
    name = f"{prompt.id}@{prompt.version}" if prompt.version else prompt.id
    variables = dict(request.foreword.variables) if request.foreword else {}
    for key, value in (prompt.variables or {}).items():
        variables[key] = _variable(key, value)
    return {"template": name, "variables": variables}


def _variable(name: str, value: Any) -> Any:
    match value:
        case {"type": "input_text", "text": str() as text}:
            return text
        case {"type": "input_image" | "input_file" as kind}:
            problem = f"variable {name!r}: {kind} can't be taken; give text"
            raise InvalidRequestError(problem, param=f"prompt.variables.{name}")
        case _:
            return value


def _format(wanted: TextFormat) -> dict[str, Any]:
    """`response_format`, where the answer must have a form."""
    match wanted.type:
        case "text":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            schema = {
                "name": wanted.name,
                "description": wanted.description,
                "schema": wanted.json_schema,
                "strict": wanted.strict,
            }
            known = {name: value for name, value in schema.items() if value is not None}
            return {"response_format": {"type": "json_schema", "json_schema": known}}


def _tools(request: ResponsesRequest) -> dict[str, Any]:
    """The client's functions. A search is no tool of the model's: the gateway runs it first."""
    choice = _choice(request)
    if not request.functions:
        return {}
    tools = [
        {"type": "function", "function": tool.model_dump(exclude={"type"}, exclude_none=True)}
        for tool in request.functions
    ]
    fields: dict[str, Any] = {"tools": tools}
    if choice is not None:
        fields["tool_choice"] = choice
    if request.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = request.parallel_tool_calls
    return fields


def _choice(request: ResponsesRequest) -> str | dict[str, Any] | None:
    """In chat completions' words; None where the model is left its own.

    Raises:
        InvalidRequestError: it can't be followed with the request's tools.
    """
    match request.tool_choice:
        case None:
            return None
        case {"type": "file_search"}:
            _check_search(request)
            return None
        case "required" if not request.tools:
            raise _refused(
                "'required' asks for a call, and there are no tools; send some in `tools`"
            )
        case str() as word if word in _CHOICES:
            return word
        case {"type": "function", "name": str() as name}:
            _check_function(request, name)
            return {"type": "function", "function": {"name": name}}
        case {
            "type": "allowed_tools",
            "mode": "auto" | "required" as mode,
            "tools": list() as tools,
        }:
            return _allowed(request, mode, tools)
    raise _refused(
        "give auto, none, required, the function or file_search to use, or allowed_tools with mode "
        "(auto or required) and tools"
    )


def _allowed(request: ResponsesRequest, mode: str, tools: list[Any]) -> str | dict[str, Any]:
    """The functions that may be called, in chat completions' words."""
    named, searches = [], False
    for tool in tools:
        match tool:
            case {"type": "function", "name": str() as name}:
                _check_function(request, name)
                named.append({"type": "function", "function": {"name": name}})
            case {"type": "file_search"}:
                _check_search(request)
                searches = True
            case _:
                raise _refused("tools names functions and file_search, as in `tools`")
    if not named and not searches:
        raise _refused("tools is empty; name one that is sent in `tools`, or choose none")
    if not named:
        return "none"  # of the functions
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


def _check_function(request: ResponsesRequest, name: str) -> None:
    """Raises InvalidRequestError: it isn't sent."""
    if name not in {tool.name for tool in request.functions}:
        raise _refused(f"{name!r} is not among this request's tools; name one that is in `tools`")


def _check_search(request: ResponsesRequest) -> None:
    """Raises InvalidRequestError: there is none."""
    if request.file_search is None:
        raise _refused("file_search is not among this request's tools; send it in `tools`")


def _refused(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"tool_choice: {problem}", param="tool_choice")
