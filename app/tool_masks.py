"""Which tools an answer may call, as the engine is told it. The prompt shows all of them anyway.

The engine constrains an answer that must call a tool to those that it is sent. Where the model may
choose, nothing holds it: a grammar does, made of how the model's own chat template writes a call;
and where no tool may be called, the token that a call begins with can't come.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from app.errors import InvalidRequestError
from app.schemas import ChatCompletionRequest
from prompts import PromptTokenizer, Tool
from prompts.tool_calls import CallShape, call_shape
from prompts.tool_changes import ToolHistory

_NEVER = -100
# What else says how an answer must look: an engine takes one of them.
_FORMS = ("regex", "ebnf")


def tool_fields(
    request: ChatCompletionRequest, history: ToolHistory, tokenizer: PromptTokenizer | None
) -> tuple[dict[str, object], bool]:
    """The engine's fields, and whether they keep the model from a tool that the prompt shows.

    Without a tokenizer the engine makes the prompt, and must be sent what that shows.

    Raises:
        InvalidRequestError: `tool_choice` names a tool that isn't in the list.
    """
    choice = request.extras.get("tool_choice")
    tools, mode = _allowed(choice, history.now)
    fields: dict[str, object] = {}
    if tools:
        fields["tools"] = [orjson.loads(tool.json) for tool in tools]
        if mode is not choice:
            fields["tool_choice"] = mode
    if tokenizer is None:
        return fields, False
    shown = history.shown.keys() | {tool.name for tool in history.now}
    if not shown or (mode not in ("none", "auto", None) and tools):
        return fields, False
    allowed = () if mode == "none" else tuple(tool.name for tool in tools)
    if shown <= set(allowed):
        return fields, False
    shape = call_shape(tokenizer)
    if shape is None:
        return fields, False
    mask = _mask(request, shape, allowed, tools)
    return fields | mask, bool(mask)


def _allowed(choice: Any, now: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], Any]:
    """The tools that may be called, and the choice among them in words that the engine knows."""
    match choice:
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list() as given}}:
            names = {_name(tool) for tool in given}
            _check(names, now)
            if mode not in ("auto", "required"):
                problem = "tool_choice.allowed_tools.mode: give auto or required"
                raise InvalidRequestError(problem, param="tool_choice")
            return tuple([tool for tool in now if tool.name in names]), mode
        case {"type": "function", "function": {"name": str() as name}}:
            _check({name}, now)
        case {"type": "allowed_tools"}:
            raise InvalidRequestError(
                "tool_choice.allowed_tools: give a mode and tools", param="tool_choice"
            )
    return now, choice


def _name(tool: Any) -> str:
    match tool:
        case {"function": {"name": str() as name}}:
            return name
    raise InvalidRequestError(
        "tool_choice.allowed_tools.tools: name functions as in tools", param="tool_choice"
    )


def _check(names: set[str], now: tuple[Tool, ...]) -> None:
    unknown = sorted(names - {tool.name for tool in now})
    if unknown or not names:
        missing = f"{unknown[0]!r} is not among this request's tools" if unknown else "is empty"
        raise InvalidRequestError(
            f"tool_choice: {missing}; name one that is sent in `tools`", param="tool_choice"
        )


def _mask(
    request: ChatCompletionRequest,
    shape: CallShape,
    allowed: tuple[str, ...],
    tools: tuple[Tool, ...],
) -> dict[str, object]:
    """What keeps the model to the allowed names; nothing where the client's own form does."""
    extras = request.extras
    if not allowed:
        if shape.token is None:
            return {}
        bias = extras.get("logit_bias")
        given = dict(bias) if isinstance(bias, Mapping) else {}
        return {"logit_bias": {**given, str(shape.token): _NEVER}}
    if any(extras.get(name) for name in _FORMS) or _has_form(extras.get("response_format")):
        return {}
    if any(_is_strict(tool) for tool in tools):
        return {}  # the engine itself holds calls to the names that it is sent
    form = {
        "type": "structural_tag",
        "structures": [
            {"begin": shape.begin(name), "schema": {"type": "object"}, "end": shape.after}
            for name in allowed
        ],
        "triggers": [shape.trigger],
    }
    return {"response_format": form}


def _has_form(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) and wanted.get("type") != "text"


def _is_strict(tool: Tool) -> bool:
    function = orjson.loads(tool.json).get("function")
    return isinstance(function, Mapping) and function.get("strict") is True
