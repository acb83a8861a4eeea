"""Prompts of every shape, flattened into the parts that a model reads, in that order."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

# What a request body may call its prompt, in the order in which a model reads it.
_INSTRUCTIONS = ("system", "instructions")
_CONVERSATIONS = ("messages", "input")
_TEXTS = ("prompt", "text", "input_ids")
# What isn't text of a message.
_NOT_TEXT = ("role", "content", "type", "id", "status", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a prompt. `role` is the message's, or `tools`; None for plain text.

    `message` is the index of the message among the conversation's, None outside of it.
    """

    where: str
    text: str
    role: str | None = None
    message: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPrompt:
    """A prompt as its parts; `unit` is what its text consists of."""

    parts: tuple[Part, ...]
    unit: str = "character"

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(part.text for part in self.parts)


def flatten(value: object) -> FlatPrompt:
    """A prompt's parts: tools first, then instructions, then messages.

    Takes text, bytes, token ids, a list of messages, a request body (chat, responses, completions,
    Anthropic's messages, SGLang's generate), or an object with `messages`.

    Raises:
        TypeError: none of these.
    """
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the callable is async: give one that runs it, say with asyncio.run")
    match _plain(value):
        case str() as text:
            return FlatPrompt(parts=(Part(where="the prompt", text=text),))
        case bytes() as data:
            text = data.decode("utf-8", "surrogateescape")
            return FlatPrompt(parts=(Part(where="the prompt", text=text),))
        case [int(), *_] as ids:
            return _token_ids(ids)
        case Mapping() as body:
            return FlatPrompt(parts=tuple(_body(body)))
        case [*messages] if messages and all(isinstance(_plain(m), Mapping) for m in messages):
            return FlatPrompt(parts=tuple(_messages("messages", messages)))
        case _:
            raise TypeError(
                f"a {type(value).__name__} is not a prompt: return text, token ids, messages or a "
                "request body"
            )


def token_text(token_id: int) -> str:
    """One character that stands for a token id, so that ids compare as text does."""
    # Surrogates (0xD800 …) can't stand for anything; ids above them move up.
    return chr(token_id if token_id < 0xD800 else token_id + 0x800)


def text_token(character: str) -> int:
    """The token id that a character stands for."""
    code = ord(character)
    return code if code < 0xD800 else code - 0x800


def _token_ids(ids: Sequence[Any]) -> FlatPrompt:
    text = "".join(token_text(int(token_id)) for token_id in ids)
    return FlatPrompt(parts=(Part(where="the token ids", text=text),), unit="token")


def _plain(value: object) -> object:
    """Objects of pydantic, dataclasses and prompts as the plain values that they stand for."""
    dump: Callable[[], object] | None = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump()
    messages = getattr(value, "messages", None)
    if messages is not None and not isinstance(value, Mapping):
        return {"tools": list(getattr(value, "tools", None) or ()), "messages": list(messages)}
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _body(body: Mapping[str, Any]) -> Iterator[Part]:
    known = [name for name in (*_INSTRUCTIONS, *_CONVERSATIONS, *_TEXTS) if body.get(name)]
    if not known:
        names = ", ".join((*_CONVERSATIONS, *_TEXTS))
        raise TypeError(f"the request body has none of {names}, so there is no prompt in it")
    for index, tool in enumerate(body.get("tools") or ()):
        yield Part(where=f"tools[{index}]{_tool_name(tool)}", text=_json(tool), role="tools")
    for name in known:
        if name in _CONVERSATIONS and not isinstance(body[name], str):
            yield from _messages(name, body[name])
        elif name in _TEXTS:
            for part in flatten(body[name]).parts:
                yield Part(where=name, text=part.text)
        else:
            role = "user" if name == "input" else "system"
            yield from _content(name, body[name], role, None)


def _tool_name(tool: object) -> str:
    match _plain(tool):
        case {"function": {"name": str() as name}} | {"name": str() as name}:
            return f" ({name})"
    return ""


def _messages(name: str, messages: Sequence[object]) -> Iterator[Part]:
    for index, item in enumerate(messages):
        message = _plain(item)
        if not isinstance(message, Mapping):
            raise TypeError(f"{name}[{index}] is a {type(item).__name__}, not a message")
        role = str(message.get("role") or message.get("type") or "unknown")
        where = f"{name}[{index}] ({role})"
        yield from _content(where, message.get("content"), role, index)
        rest = {key: v for key, v in message.items() if key not in _NOT_TEXT and v}
        if rest:
            yield Part(where=f"{where} fields", text=_json(rest), role=role, message=index)


def _content(where: str, content: object, role: str, message: int | None) -> Iterator[Part]:
    match content:
        case None:
            return
        case str():
            yield Part(where=where, text=content, role=role, message=message)
        case [*items]:
            for index, item in enumerate(items):
                text = item.get("text") if isinstance(item, Mapping) else None
                text = text if isinstance(text, str) else _json(item)
                yield Part(where=f"{where}.content[{index}]", text=text, role=role, message=message)
        case _:
            yield Part(where=where, text=_json(content), role=role, message=message)


def _json(value: object) -> str:
    """JSON with the keys as they come: their order is part of what is sent."""
    return json.dumps(value, ensure_ascii=False, default=_json_default)


def _json_default(value: object) -> object:
    plain = _plain(value)
    return repr(value) if plain is value else plain
