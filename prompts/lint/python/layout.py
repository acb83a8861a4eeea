"""A sent prompt as a row of turns, in the order in which a chat template puts them."""

from dataclasses import dataclass, replace

from prompts.lint.python.frame import union
from prompts.lint.python.sinks import SentPrompt
from prompts.lint.python.taints import CLEAN, Taints
from prompts.lint.python.values import (
    Constant,
    Entries,
    Item,
    Items,
    Message,
    Opaque,
    Part,
    Text,
    Value,
    as_text,
    concatenated,
    is_fixed,
    known_string,
    taints_of,
)

_USERS = frozenset({"user", "human"})
_ASSISTANTS = frozenset({"assistant", "ai", "model"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message, or any number of such messages if `repeated`.

    `role` is empty if unknown; `tail` says that it is the last user turn or behind it. `taints`
    are those of its other fields, such as tool calls.
    """

    role: str
    text: Text
    repeated: bool = False
    rebuilt: bool = False
    tail: bool = False
    taints: Taints = CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Turns in order, the system text first; `order` are causes why the row itself differs."""

    turns: tuple[Turn, ...]
    order: Taints = CLEAN
    raw: bool = False
    tools: Value | None = None
    line: int = 0
    label: str = ""


def layout_of(sent: SentPrompt) -> Layout:
    """The turns of a sent prompt."""
    turns: list[Turn] = []
    order = CLEAN
    if sent.system is not None and sent.system != Constant(None):
        turns.append(Turn(role="system", text=_content(sent.system)))
    if isinstance(sent.messages, Items):
        turns += [turn for item in sent.messages.items for turn in _turns(item)]
        order = sent.messages.order
    elif sent.messages is not None and not is_fixed(sent.messages):
        unknown = as_text(Opaque(taints=taints_of(sent.messages)))
        turns.append(Turn(role="", text=unknown, repeated=True))
    raw = sent.text is not None and sent.system is None
    if sent.text is not None:
        turns.append(Turn(role="" if raw else "user", text=_raw_text(sent.text)))
    marked = tuple(turns) if raw or sent.open_ended else _with_tail(turns)
    return Layout(
        turns=marked, order=order, raw=raw, tools=sent.tools, line=sent.line, label=sent.label
    )


def _raw_text(value: Value) -> Text:
    if isinstance(value, Items):
        return concatenated([as_text(item.value) for item in value.items])
    return as_text(value)


def _turns(item: Item) -> list[Turn]:
    value = item.value
    match value:
        case Message():
            turn = Turn(role=_role(value.role), text=_content(value.content))
        case Entries() if _is_mapping_of_message(value):
            role = known_string(value.get("role")) or ""
            extra = union(taints_of(v) for k, v in value.entries if k not in ("role", "content"))
            content = _content(value.get("content") or value.get("parts") or Constant(None))
            turn = Turn(role=_role(role), text=content, taints=extra)
        case Items(items=(role_item, content_item)) if known_string(role_item.value):
            role = known_string(role_item.value) or ""
            turn = Turn(role=_role(role), text=_content(content_item.value))
        case Text():
            turn = Turn(role="user", text=value)
        case Constant(None):
            return []
        case _:
            turn = Turn(role="", text=as_text(value))
    return [replace(turn, repeated=item.repeated, rebuilt=item.rebuilt)]


def _is_mapping_of_message(value: Entries) -> bool:
    return any(value.get(key) is not None for key in ("role", "content", "parts"))


def _role(role: str) -> str:
    if role in _USERS:
        return "user"
    return "assistant" if role in _ASSISTANTS else "system" if role == "developer" else role


def _content(value: Value) -> Text:
    """A message's text; of multi-part content the text parts, in order."""
    match value:
        case Items():
            texts = [_content_part(item) for item in value.items]
            order = [Text((Part(taints=value.order),))] if value.order else []
            return concatenated([*order, *texts])
        case Constant(None):
            return Text(())
        case Entries():
            parts = value.get("parts")
            return _content(parts) if parts is not None else _content_part(Item(value))
        case _:
            return as_text(value)


def _content_part(item: Item) -> Text:
    value = item.value
    if isinstance(value, Entries):
        value = value.get("text") or value.get("content") or Opaque(taints=taints_of(value))
    text = as_text(value)
    if not item.repeated:
        return text
    return Text((Part(taints=taints_of(text), forks=item.forks),))


def _with_tail(turns: list[Turn]) -> tuple[Turn, ...]:
    """The last user turn and what follows it, marked."""
    last = next((i for i in range(len(turns) - 1, -1, -1) if turns[i].role == "user"), None)
    if last is None and turns and not turns[-1].repeated and turns[-1].role != "system":
        last = len(turns) - 1
    if last is None:
        return tuple(turns)
    return tuple(replace(turn, tail=i >= last) for i, turn in enumerate(turns))
