"""Methods of strings, lists and mappings: from values to values, without running any code."""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prompts.lint.python.sources import is_locale_date, strips_reasoning
from prompts.lint.python.taints import CLEAN, ORDER_KINDS, Kind, Span, Taint, Taints
from prompts.lint.python.values import (
    NONE,
    UNKNOWN,
    Constant,
    Entries,
    Item,
    Items,
    Opaque,
    Part,
    Text,
    Value,
    as_text,
    concatenated,
    element,
    is_fixed,
    join,
    known_string,
    literal,
    mapped_taints,
    sequence,
    taints_of,
)

_PLAIN_TEXT_METHODS = frozenset(
    [
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "title",
        "capitalize",
        "casefold",
        "encode",
        "decode",
        "expandtabs",
        "removeprefix",
        "removesuffix",
        "swapcase",
        "center",
        "ljust",
        "rjust",
        "zfill",
    ]
)
# What is worth a word even where only the template's file tells its place.
_EARLY = frozenset({Kind.CLOCK, Kind.IDENTIFIER, Kind.SAMPLE})
_CUTS = frozenset({"split", "rsplit", "partition", "rpartition", "splitlines"})
_PERCENT = re.compile(r"%(?:\((\w+)\))?[-#0 +]*(?:\*|\d+)?(?:\.\d+)?([a-zA-Z%])")


@dataclass(frozen=True, slots=True)
class Call:
    """A call's arguments as values, its place and the dotted name of what is called."""

    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    span: Span
    path: str = ""

    def argument(self, position: int, name: str) -> Value | None:
        """The argument at a position or by name."""
        if position < len(self.arguments):
            return self.arguments[position]
        return self.keyword(name)

    def keyword(self, name: str) -> Value | None:
        """The argument of that name."""
        for key, value in self.keywords:
            if key == name:
                return value
        return None

    def taint(self, kind: Kind, *, sure: bool = True) -> Taints:
        """This call as a cause."""
        return frozenset({Taint(kind, self.span, sure)})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method returns, and what becomes of the object if it changes."""

    result: Value
    changed: Value | None = None


def text_method(text: Text, name: str, call: Call) -> Value | None:
    """The result of a string method; None if it isn't known."""
    if name == "format":
        return format_braces(text, call.arguments, dict(call.keywords), call)
    if name == "join":
        return join_items(text, call.arguments[0] if call.arguments else UNKNOWN)
    if name == "strftime":
        return _strftime(text, call)
    if name in _PLAIN_TEXT_METHODS:
        return text
    if name in _CUTS:
        return _cut(text, call)
    if name == "replace" and len(call.arguments) >= 2:
        return _replaced(text, as_text(call.arguments[0]), as_text(call.arguments[1]))
    return None


def _strftime(text: Text, call: Call) -> Value:
    form = known_string(call.arguments[0]) if call.arguments else None
    taints = taints_of(text)
    if form is not None and is_locale_date(form) and not taints:
        taints = call.taint(Kind.LOCALE)
    return Text((Part(taints=taints, fixed=is_fixed(text)),))


def _cut(text: Text, call: Call) -> Value:
    mark = known_string(call.arguments[0]) if call.arguments else None
    if mark is not None and strips_reasoning(mark):
        stripped = Part(taints=taints_of(text) | call.taint(Kind.STRIPPED))
        return Items((Item(Text((stripped,)), repeated=True),))
    piece = Text((Part(taints=taints_of(text), fixed=is_fixed(text)),))
    return Items((Item(piece, repeated=True),))


def _replaced(text: Text, old: Text, new: Text) -> Text:
    """The text with another put in where a known mark stands in its literal parts."""
    mark = known_string(old)
    if not mark:
        return Text((Part(taints=taints_of(text) | taints_of(new)),))
    parts: list[Part] = []
    for part in text.parts:
        if part.text is None:
            parts += put_anywhere(taints_of(new), Text((part,))).parts
            continue
        if mark not in part.text:
            parts.append(part)
            continue
        for position, piece in enumerate(part.text.split(mark)):
            if position:
                parts += new.parts
            if piece:
                parts.append(replace(part, text=piece))
    return Text(tuple(parts))


def join_items(separator: Text, value: Value) -> Text:
    """`separator.join(value)`."""
    if not isinstance(value, Items):
        return as_text(Opaque(taints=taints_of(value), fixed=is_fixed(value)))
    texts: list[Text] = []
    for position, item in enumerate(value.items):
        if position and separator.parts:
            texts.append(separator)
        texts.append(_repeated(item) if item.repeated else as_text(item.value))
    if value.order:
        texts.insert(0, Text((Part(taints=value.order),)))
    return concatenated(texts)


def _repeated(item: Item) -> Text:
    """Any number of items: its words aren't the same text at the same place in every run."""
    return Text((Part(taints=taints_of(item.value), forks=item.forks, name=_name_of(item.value)),))


def _name_of(value: Value) -> str:
    match value:
        case Opaque():
            return value.name
        case Text():
            return next((part.name for part in value.parts if part.name), "")
        case _:
            return ""


def format_braces(
    text: Text, positional: Sequence[Value], named: dict[str, Value], call: Call
) -> Text:
    """`text.format(...)`."""
    source = known_string(text)
    if source is None:
        given = CLEAN.union(*(taints_of(v) for v in (*positional, *named.values())))
        return put_anywhere(given, text)
    try:
        fields = list(string.Formatter().parse(source))
    except ValueError:
        return text
    texts: list[Text] = []
    for number, (before, name, form, _) in enumerate(fields):
        texts.append(literal(before))
        if name is not None:
            value = _field(name, number, positional, named)
            texts.append(formatted(value, form or "", call))
    return concatenated(texts)


def put_anywhere(given: Taints, text: Text) -> Text:
    """A text that isn't known with values put in: clocks and ids may well stand at its start."""
    early = frozenset(replace(t, sure=False) for t in given if t.kind in _EARLY)
    rest = frozenset(t for t in given if t.kind not in _EARLY)
    start = (Part(taints=early),) if early else ()
    end = (Part(taints=rest),) if rest or not early else ()
    return Text((*start, *text.parts, *end))


def _field(name: str, number: int, positional: Sequence[Value], named: dict[str, Value]) -> Value:
    head = re.split(r"[.\[]", name, maxsplit=1)[0]
    if head in named:
        return named[head]
    place = int(head) if head.isdigit() else number
    if (not head or head.isdigit()) and place < len(positional):
        return positional[place]
    return Opaque(name=name)


def formatted(value: Value, form: str, call: Call) -> Text:
    """A value as an f-string or `format` puts it in, by a format such as `n`."""
    text = as_text(value)
    locale_number = form.endswith("n") and len(form) < 8
    if (locale_number or is_locale_date(form)) and not taints_of(text):
        return Text((Part(taints=call.taint(Kind.LOCALE)),))
    return text


def format_percent(text: Text, value: Value) -> Text:
    """`text % value`."""
    source = known_string(text)
    if source is None:
        return Text((*text.parts, Part(taints=taints_of(value))))
    items: list[Value] = [value]
    if isinstance(value, Items):
        items = [i.value for i in value.items]
    texts: list[Text] = []
    end = 0
    for found in _PERCENT.finditer(source):
        texts.append(literal(source[end : found.start()]))
        end = found.end()
        texts.append(_percent_field(found, value, items))
    return concatenated([*texts, literal(source[end:])])


def _percent_field(found: re.Match[str], value: Value, items: list[Value]) -> Text:
    if found.group(2) == "%":
        return literal("%")
    if found.group(1) and isinstance(value, Entries):
        return as_text(value.get(found.group(1)) or UNKNOWN)
    return as_text(items.pop(0) if items else UNKNOWN)


def items_method(value: Items, name: str, call: Call) -> Outcome | None:
    """A method of lists, sets and deques; None if it isn't known."""
    first = call.arguments[0] if call.arguments else UNKNOWN
    match name:
        case "append" | "add":
            return Outcome(NONE, _with(value, (*value.items, Item(first, span=call.span))))
        case "extend" | "update" if isinstance(first, Items):
            order = value.order | first.order
            changed = sequence((*value.items, *first.items), order, unordered=value.unordered)
            return Outcome(NONE, changed)
        case "extend" | "update":
            more = Item(element(first), repeated=True, rebuilt=True, span=call.span)
            return Outcome(NONE, _with(value, (*value.items, more)))
        case "insert" if len(call.arguments) > 1:
            return Outcome(NONE, _inserted(value, first, Item(call.arguments[1], span=call.span)))
        case "appendleft":
            return Outcome(NONE, _with(value, (Item(first, span=call.span), *value.items)))
        case "pop" | "popleft" | "remove":
            return _removed(value, name, call)
        case "sort":
            return Outcome(NONE, mapped_taints(value, ORDER_KINDS))
        case "copy" | "__copy__":
            return Outcome(value)
        case "clear":
            return Outcome(NONE, Items())
        case "reverse":
            return Outcome(NONE, _with(value, value.items[::-1]))
        case "union" | "intersection" | "difference" | "symmetric_difference":
            return Outcome(replace(value, order=call.taint(Kind.SET_ORDER), unordered=True))
        case "index" | "count" | "issubset" | "issuperset":
            return Outcome(UNKNOWN)
    return None


def _with(value: Items, items: Sequence[Item]) -> Items:
    return sequence(items, value.order, unordered=value.unordered)


def _inserted(value: Items, where: Value, item: Item) -> Items:
    position = where.value if isinstance(where, Constant) else None
    if not isinstance(position, int):
        return _with(value, (*value.items, replace(item, repeated=True)))
    items = list(value.items)
    items.insert(position, item)
    return _with(value, items)


def _removed(value: Items, name: str, call: Call) -> Outcome:
    position = _position(call.arguments[0]) if call.arguments else None
    from_front = name == "popleft" or (name == "pop" and position in (0, 1))
    if from_front:
        cut = call.taint(Kind.TRUNCATED)
        rest = tuple(i for i in value.items if i.repeated) or value.items[1:]
        return Outcome(element(value), replace(value, items=rest, order=value.order | cut))
    if name == "pop" and value.items and not value.items[-1].repeated:
        return Outcome(value.items[-1].value, _with(value, value.items[:-1]))
    return Outcome(element(value), value)


def _position(value: Value) -> int | None:
    if isinstance(value, Constant) and isinstance(value.value, int):
        return value.value
    return None


def entries_method(value: Entries, name: str, call: Call) -> Outcome | None:
    """A method of mappings; None if it isn't known."""
    first = call.arguments[0] if call.arguments else UNKNOWN
    key = known_string(first)
    match name:
        case "get" | "pop" | "setdefault":
            found = value.get(key) if key is not None else None
            if found is not None:
                return Outcome(found)
            default = call.arguments[1] if len(call.arguments) > 1 else UNKNOWN
            changed = value.put(key, default) if name == "setdefault" and key else None
            return Outcome(_any_value(value) if key is None else default, changed)
        case "items":
            return Outcome(Items(_pairs(value), value.taints))
        case "keys":
            return Outcome(keys(value))
        case "values":
            return Outcome(Items(tuple(Item(v) for _, v in value.entries) + _rest(value)))
        case "copy":
            return Outcome(value)
        case "update":
            return Outcome(NONE, updated(value, first, call.keywords))
    return None


def _any_value(value: Entries) -> Value:
    joined: Value | None = None
    for _, each in value.entries:
        joined = each if joined is None else join(joined, each)
    return joined if joined is not None and not value.open else Opaque(taints=taints_of(value))


def _pairs(value: Entries) -> tuple[Item, ...]:
    pairs = (Items((Item(literal(k)), Item(v))) for k, v in value.entries)
    return tuple(Item(pair) for pair in pairs) + _rest(value)


def _rest(value: Entries) -> tuple[Item, ...]:
    return (Item(Opaque(taints=value.taints), repeated=True),) if value.open else ()


def keys(value: Entries) -> Items:
    """The keys of a mapping, in its order."""
    return Items(tuple(Item(literal(k)) for k, _ in value.entries) + _rest(value))


def updated(value: Entries, other: Value, more: tuple[tuple[str, Value], ...] = ()) -> Entries:
    """`{**value, **other, **more}`."""
    if isinstance(other, Entries):
        for key, each in other.entries:
            value = value.put(key, each)
        value = replace(value, open=value.open or other.open, taints=value.taints | other.taints)
    elif other is not UNKNOWN or not more:
        value = replace(value, open=True, taints=value.taints | taints_of(other))
    for key, each in more:
        value = value.put(key, each)
    return value
