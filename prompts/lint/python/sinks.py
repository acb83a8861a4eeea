"""Calls that send a prompt to a model: which argument is the system text, which the messages."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from prompts.lint.python.methods import Call
from prompts.lint.python.values import (
    Entries,
    Item,
    Items,
    Message,
    Opaque,
    Part,
    PromptTemplate,
    Text,
    Value,
    is_fixed,
    known_string,
)
from prompts.lint.python.vocabulary import is_model_call


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """One call's prompt. `text` is a prompt without messages; `line` is the call's."""

    line: int
    label: str
    system: Value | None = None
    messages: Value | None = None
    tools: Value | None = None
    text: Value | None = None
    open_ended: bool = False


Sink: TypeAlias = Callable[[Call, str], SentPrompt | None]

_PROMPT_PATH = re.compile(
    r"/(?:chat/)?completions?\b|/generate\b|/v1/(?:messages|responses|complete)\b"
    r"|/api/(?:generate|chat)\b"
)
_NOT_TEXT = re.compile(r"(?:.*\.)?(?:images?|videos?|audio|speech|moderations|embeddings)\..*")
_MODEL_SETTINGS = frozenset(
    [
        "model",
        "sampling_params",
        "max_tokens",
        "max_new_tokens",
        "temperature",
        "stream",
        "n_predict",
    ]
)
_MODEL_NAMES = re.compile(r"(?:.*_)?(?:llm|model|chat|chain|agent|client|engine|runtime|lm)\d?")
_SENDERS = frozenset(
    [
        "invoke",
        "ainvoke",
        "stream",
        "astream",
        "batch",
        "abatch",
        "predict",
        "apredict",
        "run",
        "arun",
    ]
)
_SYSTEM_KEYWORDS = frozenset({"system_prompt", "system_instruction", "system_message"})
# `instructions=` is a system text only for something that is an agent.
_AGENTS = re.compile(r"(?i).*(?:agent|assistant|realtime|llm|model)[a-z0-9]*")


def sent_prompt(path: str, call: Call) -> SentPrompt | None:
    """What a call sends, if it is one that sends a prompt. `path` is the function's dotted name."""
    for suffix, sink in _BY_LAST_NAME.get(path.rpartition(".")[2], ()):
        if path == suffix or path.endswith(f".{suffix}"):
            sent = sink(call, path)
            if sent is not None:
                return sent
    return _wrapped(call, path) or (_generic(call, path) if call.keywords else None)


def _chat(call: Call, path: str) -> SentPrompt | None:
    messages = call.keyword("messages")
    if messages is None and call.arguments and holds_messages(call.arguments[0]):
        messages = call.arguments[0]
    if messages is None:
        return _raw(call, path) if call.keyword("prompt") is not None else None
    tools = call.keyword("tools") or call.keyword("functions")
    return SentPrompt(
        line=call.span.line,
        label=path,
        system=call.keyword("system"),
        messages=messages,
        tools=tools,
    )


def _responses(call: Call, path: str) -> SentPrompt | None:
    sent = call.keyword("input")
    if sent is None:
        return None
    is_text = isinstance(sent, Text)
    return SentPrompt(
        line=call.span.line,
        label=path,
        system=call.keyword("instructions"),
        messages=Items() if is_text else sent,
        tools=call.keyword("tools"),
        text=sent if is_text else None,
    )


def _raw(call: Call, path: str) -> SentPrompt | None:
    if _NOT_TEXT.fullmatch(path):
        return None
    text = call.keyword("prompt") or call.keyword("text") or call.keyword("prompts")
    if text is None and call.arguments:
        text = call.arguments[0]
    if text is None or not _is_text(text):
        return None
    return SentPrompt(line=call.span.line, label=path, text=text)


def _is_text(value: Value) -> bool:
    if isinstance(value, Items):
        return any(isinstance(item.value, Text) for item in value.items)
    return isinstance(value, Text)


def _posted(call: Call, path: str) -> SentPrompt | None:
    """The body of an HTTP request: `json=`, or `data=`/`content=` of a serialised mapping."""
    body = call.keyword("json")
    for name in ("data", "content", "body"):
        body = body if body is not None else _undumped(call.keyword(name))
    if not isinstance(body, Entries):
        return None
    url = " ".join(known_parts(each) for each in call.arguments[:2])
    url += known_parts(call.keyword("url"))
    return _body(body, url, call, path)


def _undumped(value: Value | None) -> Value | None:
    match value:
        case Text(parts=(Part(inner=inner),)) if inner is not None:
            return inner
        case _:
            return value


def known_parts(value: Value | None) -> str:
    """The known characters of a text."""
    if not isinstance(value, Text):
        return ""
    return "".join(part.text or "" for part in value.parts)


def _body(body: Entries, url: str, call: Call, path: str) -> SentPrompt | None:
    line, tools = call.span.line, body.get("tools") or body.get("functions")
    messages = body.get("messages")
    if messages is not None and (holds_messages(messages) or _PROMPT_PATH.search(url)):
        system = body.get("system")
        return SentPrompt(line=line, label=path, system=system, messages=messages, tools=tools)
    contents = body.get("contents")
    if contents is not None:
        system = body.get("system_instruction")
        return SentPrompt(line=line, label=path, system=system, messages=contents, tools=tools)
    keys = {key for key, _ in body.entries}
    if not (_PROMPT_PATH.search(url) or keys & _MODEL_SETTINGS):
        return None
    sent = body.get("input")
    if sent is not None and "instructions" in keys:
        system = body.get("instructions")
        return SentPrompt(line=line, label=path, system=system, messages=sent, tools=tools)
    text = body.get("prompt") or body.get("text") or body.get("inputs") or sent
    if text is None or not _is_text(text):
        return None
    return SentPrompt(line=line, label=path, text=text)


def _invoked(call: Call, path: str) -> SentPrompt | None:
    """LangChain and the like: a list of messages, or text for something that is a model."""
    given = call.arguments[0] if call.arguments else call.keyword("input")
    if given is None:
        return None
    if holds_messages(given):
        return SentPrompt(line=call.span.line, label=path, messages=given)
    if isinstance(given, Entries) and holds_messages(given.get("messages")):
        return SentPrompt(line=call.span.line, label=path, messages=given.get("messages"))
    owner = path.split(".")[-2].lower() if "." in path else ""
    if isinstance(given, Text) and _MODEL_NAMES.fullmatch(owner):
        return SentPrompt(line=call.span.line, label=path, text=given)
    return None


def _chat_template(call: Call, path: str) -> SentPrompt | None:
    messages = call.argument(0, "conversation")
    if messages is None:
        return None
    tools = call.keyword("tools")
    return SentPrompt(line=call.span.line, label=path, messages=messages, tools=tools)


def _wrapped(call: Call, path: str) -> SentPrompt | None:
    """A function of somebody's own that is given messages and named as one that asks a model."""
    if not call.arguments or not holds_messages(call.arguments[0]):
        return None
    if not is_model_call(path.rpartition(".")[2]):
        return None
    tools = call.keyword("tools")
    return SentPrompt(line=call.span.line, label=path, messages=call.arguments[0], tools=tools)


def _generic(call: Call, path: str) -> SentPrompt | None:
    """A wrapper of somebody's own: `messages=` with messages in it, `system_prompt=`."""
    messages = call.keyword("messages")
    if holds_messages(messages):
        return _chat(call, path)
    if (tool := _tool(call, path)) is not None:
        return tool
    for name, value in call.keywords:
        is_system = name in _SYSTEM_KEYWORDS or (name == "instructions" and _AGENTS.fullmatch(path))
        if is_system and isinstance(value, Text) and not is_fixed(value):
            tools = call.keyword("tools")
            return SentPrompt(
                line=call.span.line, label=path, system=value, tools=tools, open_ended=True
            )
    return None


def _tool(call: Call, path: str) -> SentPrompt | None:
    """A tool made by a function of somebody's own: its description is part of the tool list."""
    text = call.keyword("description")
    if text is None or "tool" not in path.rpartition(".")[2].lower():
        return None
    described = Entries((("description", text),))
    return SentPrompt(line=call.span.line, label=path, tools=Items((Item(described),)))


def holds_messages(value: Value | None) -> bool:
    """Whether a value is a list with at least one chat message in it."""
    return isinstance(value, Items) and any(is_message(item.value) for item in value.items)


def is_message(value: Value) -> bool:
    """Whether a value is a chat message: an object, a mapping with a role, a role and its text."""
    match value:
        case Message():
            return True
        case Entries():
            return value.get("role") is not None and value.get("content") is not None
        case Items(items=(role, _)):
            return known_string(role.value) in {"system", "human", "user", "ai", "assistant"}
        case PromptTemplate() | Opaque() | _:
            return False


_BY_SUFFIX: Mapping[str, Sink] = MappingProxyType(
    {
        "chat.completions.create": _chat,
        "chat.completions.parse": _chat,
        "chat.completions.stream": _chat,
        "ChatCompletion.create": _chat,
        "ChatCompletion.acreate": _chat,
        "messages.create": _chat,
        "messages.stream": _chat,
        "messages.parse": _chat,
        "completions.create": _raw,
        "Completion.create": _raw,
        "Completion.acreate": _raw,
        "responses.create": _responses,
        "responses.parse": _responses,
        "responses.stream": _responses,
        "completion": _chat,
        "acompletion": _chat,
        "text_completion": _raw,
        "chat.complete": _chat,
        "chat.complete_async": _chat,
        "chat_completion": _chat,
        "create_chat_completion": _chat,
        "create_completion": _raw,
        "ollama.chat": _chat,
        "ollama.generate": _raw,
        "chat": _chat,
        "generate": _raw,
        "agenerate": _raw,
        "async_generate": _raw,
        "generate_content": _raw,
        "apply_chat_template": _chat_template,
        "post": _posted,
        "request": _posted,
        "stream": _posted,
        **dict.fromkeys(sorted(_SENDERS), _invoked),
    }
)

_BY_LAST_NAME: Mapping[str, tuple[tuple[str, Sink], ...]] = MappingProxyType(
    {
        last: tuple(each for each in _BY_SUFFIX.items() if each[0].rpartition(".")[2] == last)
        for last in {suffix.rpartition(".")[2] for suffix in _BY_SUFFIX}
    }
)
