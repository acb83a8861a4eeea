"""One line of a request log to the request that it holds.

Understood are OpenAI's chat, responses and completions bodies, bare or wrapped (`body`, `request`,
…), with or without the response and its usage; lines of OpenAI's batch files are such wrappers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import orjson

from prompts import Message, Tool, ToolCall

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Object: TypeAlias = dict[str, JSON]

_WRAPPERS = ("body", "request", "request_body", "payload", "kwargs", "params", "data")
_RESPONSES = ("response", "response_body", "completion", "result")
_INSTRUCTIONS = ("instructions", "system")
_SALTS = ("cache_salt", "extra_key")
_WRAPPER_DEPTH = 3


class LogLineError(ValueError):
    """A line that holds no request; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """A request as it was sent, and what came back where the log has it; None is unknown.

    The first `instructions` messages are the body's own instructions, which no later response takes
    over from this one.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    output: Message | None = None
    salt: str = ""
    user: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    response_id: str = ""
    previous_response_id: str = ""
    instructions: int = 0


def parse_line(line: bytes) -> LoggedRequest:
    """The request on a line.

    Raises:
        LogLineError: not JSON, or nothing in it looks like a request body.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise LogLineError(f"not JSON: {error}") from error
    body = _body(record, _WRAPPER_DEPTH)
    if body is None:
        raise LogLineError("no request body with messages, input or prompt")
    response = _response(record) if isinstance(record, dict) else None
    usage = _usage(response, record)
    return LoggedRequest(
        messages=_messages(body),
        tools=_tools(body),
        output=_output(response),
        salt="\0".join(_text_of(body.get(key)) for key in _SALTS if body.get(key)),
        user=_user(body),
        prompt_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        cached_tokens=_cached(usage),
        response_id=_text_of((response or {}).get("id")),
        previous_response_id=_text_of(body.get("previous_response_id")),
        instructions=sum(1 for key in _INSTRUCTIONS if body.get(key)),
    )


def _body(record: JSON, depth: int) -> Object | None:
    if isinstance(record, str) and record.lstrip().startswith("{"):
        try:
            record = orjson.loads(record)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("messages"), list):
        return record
    if depth:
        for key in _WRAPPERS:
            inner = _body(record.get(key), depth - 1)
            if inner is not None:
                return inner
    held = record.get("input", record.get("prompt"))
    return record if isinstance(held, str | list) else None


def _response(record: Object) -> Object | None:
    for key in _RESPONSES:
        held = record.get(key)
        if isinstance(held, dict):
            inner = held.get("body")
            return inner if isinstance(inner, dict) else held
    return record if "choices" in record or "usage" in record else None


def _messages(body: Object) -> tuple[Message, ...]:
    messages: list[Message] = []
    for key in _INSTRUCTIONS:
        if body.get(key):
            messages.append(Message(role="system", content=_content(body[key])))
    held = body.get("messages", body.get("input", body.get("prompt")))
    if isinstance(held, str):
        messages.append(Message(role="user", content=held))
    elif isinstance(held, list):
        messages += [_message(item) for item in held]
    if not messages:
        raise LogLineError("a request body without a message")
    return tuple(messages)


def _message(item: JSON) -> Message:
    if isinstance(item, str):
        return Message(role="user", content=item)
    if not isinstance(item, dict):
        raise LogLineError("a message that is neither text nor an object")
    match item.get("type"):
        case "function_call":
            call = ToolCall(
                id=_text_of(item.get("call_id")),
                name=_text_of(item.get("name")),
                arguments=_text_of(item.get("arguments")),
            )
            return Message(role="assistant", content="", tool_calls=(call,))
        case "function_call_output":
            text = _content(item.get("output"))
            return Message(role="tool", content=text, tool_call_id=_text_of(item.get("call_id")))
        case "reasoning":
            text = _content(item.get("content") or item.get("summary"))
            return Message(role="assistant", content="", reasoning=text)
    content = item.get("content")
    role = item.get("role")
    if type(content) is str and type(role) is str and len(item) == 2:
        return Message(role=_engine_role(role), content=content)
    return _rich_message(item)


def _engine_role(role: str) -> str:
    """The role as Foreword's engine sends it on: chat templates know no developer."""
    return "system" if role == "developer" else role


def _rich_message(item: Object) -> Message:
    role = item.get("role")
    if not isinstance(role, str):
        raise LogLineError("a message without a role")
    reasoning = item.get("reasoning_content") or item.get("reasoning")
    return Message(
        role=_engine_role(role),
        content=_content(item.get("content")),
        tool_calls=_calls(item),
        tool_call_id=_text_of(item.get("tool_call_id")) or None,
        name=_text_of(item.get("name")) or None,
        reasoning=_content(reasoning) if reasoning else None,
    )


def _calls(item: Object) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    held = item.get("tool_calls")
    if isinstance(item.get("function_call"), dict):
        held = [{"function": item["function_call"]}]
    for call in held if isinstance(held, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            calls.append(
                ToolCall(
                    id=_text_of(call.get("id")),
                    name=_text_of(function.get("name")),
                    arguments=_text_of(function.get("arguments")),
                )
            )
    return tuple(calls)


def _content(content: JSON) -> str:
    """The text of a content; parts that aren't text as a short mark that changes with them."""
    match content:
        case str():
            return content
        case None:
            return ""
        case list():
            return "".join(_part(part) for part in content)
        case _:
            return orjson.dumps(content).decode()


def _part(part: JSON) -> str:
    match part:
        case str():
            return part
        case {"text": str(text)} | {"refusal": str(text)}:
            return text
        case _:
            digest = blake2b(orjson.dumps(part), digest_size=8).hexdigest()
            return f"<attachment {digest}>"


def _tools(body: Object) -> tuple[Tool, ...]:
    held = body.get("tools", body.get("functions"))
    if not isinstance(held, list):
        return ()
    return tuple(Tool(name=_tool_name(tool), json=orjson.dumps(tool).decode()) for tool in held)


def _tool_name(tool: JSON) -> str:
    match tool:
        case {"function": {"name": str(name)}} | {"name": str(name)} | {"type": str(name)}:
            return name
        case _:
            return ""


def _output(response: Object | None) -> Message | None:
    if response is None:
        return None
    match response:
        case {"choices": [{"message": dict(message)}, *_]}:
            return _rich_message({"role": "assistant", **message})
        case {"output": list(items)}:
            return _joined_output(items)
        case {"role": "assistant"}:
            return _rich_message(response)
        case _:
            return None


def _joined_output(items: Sequence[JSON]) -> Message | None:
    parts = [_message(item) for item in items if isinstance(item, dict)]
    if not parts:
        return None
    reasoning = "".join(part.reasoning or "" for part in parts)
    return Message(
        role="assistant",
        content="".join(part.content for part in parts),
        tool_calls=tuple(call for part in parts for call in part.tool_calls),
        reasoning=reasoning or None,
    )


def _usage(response: Object | None, record: JSON) -> Mapping[str, JSON]:
    for holder in (response, record):
        if isinstance(holder, dict):
            usage = holder.get("usage")
            if isinstance(usage, dict):
                return usage
    return {}


def _count(usage: Mapping[str, JSON], *keys: str) -> int | None:
    for key in keys:
        value = usage.get(key)
        if type(value) is int and value >= 0:
            return value
    return None


def _cached(usage: Mapping[str, JSON]) -> int | None:
    for key in ("prompt_tokens_details", "input_tokens_details"):
        details = usage.get(key)
        if isinstance(details, dict):
            return _count(details, "cached_tokens")
    return None


def _user(body: Object) -> str:
    metadata = body.get("metadata")
    held = metadata if isinstance(metadata, dict) else {}
    return _text_of(body.get("user") or held.get("user") or held.get("user_id"))


def _text_of(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()
