"""What an expression may stand for: text in parts, lists in order, mappings by key, or unknown.

Values are immutable; a change to a list or mapping gives a new one. They describe every run of the
code at once: a list item may stand for any number of items, a part of a text for any text.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from prompts.lint.python.taints import CLEAN, Kind, Span, Taints, has, without
from prompts.lint.python.vocabulary import is_constant_name, is_scaffold

# Longer values are cut down to "unknown": no prompt needs more, and a loop must come to an end.
MAX_PARTS = 600
MAX_ITEMS = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of text. `text` is None if unknown; `fixed` says that it never differs.

    `forks` are the taints of a condition that decides between pieces; `inner` is the value that
    the piece is a serialisation of.
    """

    text: str | None = None
    fixed: bool = False
    taints: Taints = CLEAN
    forks: Taints = CLEAN
    inner: "Value | None" = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A string, in pieces."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, boolean, None or bytes."""

    value: object


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list, or any number of such items if `repeated`.

    `rebuilt`: made anew from older data whenever the code runs. `forks`: taints of the condition
    that decides whether it is there. `span` is where it was put in, if by a statement.
    """

    value: "Value"
    repeated: bool = False
    rebuilt: bool = False
    forks: Taints = CLEAN
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """A list, tuple, set or the like. `order` are the causes why its order may differ."""

    items: tuple[Item, ...] = ()
    order: Taints = CLEAN
    unordered: bool = False


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping with text keys, or an object by its fields. `open`: it may hold other keys too.

    `owner` is the class of this module that an object belongs to.
    """

    entries: tuple[tuple[str, "Value"], ...] = ()
    open: bool = False
    taints: Taints = CLEAN
    owner: str = ""

    def get(self, key: str) -> "Value | None":
        """The value of a key, if it is known."""
        for name, value in self.entries:
            if name == key:
                return value
        return None

    def put(self, key: str, value: "Value") -> "Entries":
        """The mapping with a key set; a new key comes last."""
        if self.get(key) is None:
            return replace(self, entries=(*self.entries, (key, value)))
        changed = tuple((k, value if k == key else v) for k, v in self.entries)
        return replace(self, entries=changed)


@dataclass(frozen=True, slots=True)
class Opaque:
    """Anything. `name` is what the code calls it; `fixed` says that it never differs."""

    taints: Taints = CLEAN
    fixed: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A module, class or function of another module, by its full dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Routine:
    """A function or class of this module, by its index there; `bound` if called on an instance."""

    index: str
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message: an OpenAI-style mapping, a framework's message object, a role and text."""

    role: str
    content: "Value"
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template of a framework; `syntax` says how its placeholders are written.

    `source` is text, or a list of messages; `bound` are values given so far.
    """

    syntax: str
    source: "Value"
    bound: Entries = field(default_factory=Entries)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regular expression."""

    source: str


Value: TypeAlias = (
    Text
    | Constant
    | Items
    | Entries
    | Opaque
    | Reference
    | Routine
    | Message
    | PromptTemplate
    | Pattern
)

UNKNOWN = Opaque()
NONE = Constant(None)


def literal(text: str) -> Text:
    """Text that is spelled out in the code."""
    return Text((Part(text=text, fixed=True),)) if text else Text(())


def taints_of(value: Value | None) -> Taints:
    """All causes anywhere in the value."""
    match value:
        case Text():
            return _union(part.taints | part.forks for part in value.parts)
        case Items():
            inner = _union(taints_of(item.value) | item.forks for item in value.items)
            return inner | value.order
        case Entries():
            return _union(taints_of(v) for _, v in value.entries) | value.taints
        case Opaque():
            return value.taints
        case Message():
            return taints_of(value.content)
        case PromptTemplate():
            return taints_of(value.source) | taints_of(value.bound)
        case _:
            return CLEAN


def is_parsed(value: Value) -> bool:
    """Whether the value is parsed JSON or a copy of it, not only made of some of it."""
    match value:
        case Opaque() | Entries():
            return has(value.taints, Kind.PARSED)
        case Items():
            copied = any(item.repeated and is_parsed(item.value) for item in value.items)
            return copied or has(value.order, Kind.PARSED)
        case _:
            return False


def is_fixed(value: Value) -> bool:
    """Whether the value is the same in every run."""
    match value:
        case Text():
            return all(part.fixed and not part.taints and not part.forks for part in value.parts)
        case Items():
            return not value.order and all(
                is_fixed(i.value) and not i.repeated and not i.forks for i in value.items
            )
        case Entries():
            return (
                not value.open and not value.taints and all(is_fixed(v) for _, v in value.entries)
            )
        case Opaque():
            return value.fixed and not value.taints
        case Message():
            return is_fixed(value.content)
        case PromptTemplate():
            return False
        case Reference():
            name = value.name.rpartition(".")[2]
            return is_constant_name(name) or is_scaffold(name)
        case _:
            return True


def as_text(value: Value) -> Text:
    """The text that f-strings and `str` make of the value."""
    match value:
        case Text():
            return value
        case Constant():
            return literal(str(value.value))
        case Opaque():
            return Text((Part(fixed=value.fixed, taints=value.taints, name=value.name),))
        case _:
            fixed = is_fixed(value)
            return Text((Part(fixed=fixed, taints=taints_of(value), inner=value),))


def known_string(value: Value | None) -> str | None:
    """The string if every character of it is known."""
    if not isinstance(value, Text):
        return None
    texts = [part.text for part in value.parts if part.text is not None]
    return "".join(texts) if len(texts) == len(value.parts) else None


def concatenated(texts: Iterable[Text]) -> Text:
    """The texts one after the other."""
    parts = tuple(part for text in texts for part in text.parts)
    if len(parts) <= MAX_PARTS:
        return Text(parts)
    return Text((Part(taints=_union(p.taints for p in parts), fixed=all(p.fixed for p in parts)),))


def sequence(items: Iterable[Item], order: Taints = CLEAN, *, unordered: bool = False) -> Items:
    """A list of the items, cut down if there are very many."""
    made = tuple(items)
    if len(made) > MAX_ITEMS:
        made = (*made[:MAX_ITEMS], Item(Opaque(taints=_union(taints_of(i.value) for i in made))))
    return Items(made, order, unordered)


def mapped_taints(value: Value, kinds: frozenset[Kind]) -> Value:
    """The value without causes of those kinds, at any depth."""
    match value:
        case Text():
            parts = (replace(p, taints=without(p.taints, kinds)) for p in value.parts)
            return Text(tuple(parts))
        case Items():
            items = tuple(replace(i, value=mapped_taints(i.value, kinds)) for i in value.items)
            return Items(items, without(value.order, kinds), value.unordered)
        case Entries():
            entries = tuple((k, mapped_taints(v, kinds)) for k, v in value.entries)
            return replace(value, entries=entries, taints=without(value.taints, kinds))
        case Opaque():
            return replace(value, taints=without(value.taints, kinds))
        case Message():
            return replace(value, content=mapped_taints(value.content, kinds))
        case _:
            return value


def tainted(value: Value, taints: Taints) -> Value:
    """The value with more causes, on its text or order."""
    if not taints:
        return value
    match value:
        case Text():
            changed = (replace(part, taints=part.taints | taints) for part in value.parts)
            return Text(tuple(changed))
        case Items():
            return replace(value, order=value.order | taints)
        case Entries():
            return replace(value, taints=value.taints | taints)
        case Opaque():
            return replace(value, taints=value.taints | taints, fixed=False)
        case Message():
            return replace(value, content=tainted(value.content, taints))
        case Constant():
            return Opaque(taints=taints)
        case _:
            return value


def element(value: Value) -> Value:
    """What a loop over the value binds, all items joined."""
    match value:
        case Items():
            joined: Value | None = None
            for item in value.items:
                joined = item.value if joined is None else join(joined, item.value)
            return tainted(joined if joined is not None else UNKNOWN, value.order)
        case Opaque():
            return value
        case Entries():
            return Opaque(taints=value.taints, fixed=not value.open)
        case _:
            return Opaque(taints=taints_of(value))


def join(one: Value, other: Value, forks: Taints = CLEAN) -> Value:
    """What is one or the other, as decided by a condition with the taints `forks`."""
    if one == other:
        return one
    match one, other:
        case (Constant(None), known) | (known, Constant(None)):
            return _perhaps(known, forks)
        case Text(), Text():
            return _join_texts(one, other, forks)
        case Items(), Items():
            return _join_items(one, other, forks)
        case Entries(), Entries():
            return _join_entries(one, other, forks)
        case (Opaque() as unknown, known) | (known, Opaque() as unknown) if not unknown.taints:
            return known if isinstance(known, Items | Entries | Message) else _either(one, other)
        case _:
            return _either(one, other)


def _either(one: Value, other: Value) -> Value:
    fixed = is_fixed(one) and is_fixed(other)
    taints = taints_of(one) | taints_of(other)
    if not (is_parsed(one) or is_parsed(other)):
        taints = without(taints, frozenset({Kind.PARSED}))
    return Opaque(taints=taints, fixed=fixed)


def _perhaps(value: Value, forks: Taints) -> Value:
    if not forks or not isinstance(value, Items):
        return value
    return replace(value, items=tuple(replace(i, forks=i.forks | forks) for i in value.items))


def _join_texts(one: Text, other: Text, forks: Taints) -> Text:
    common = _common(one.parts, other.parts)
    rest = (*one.parts[common:], *other.parts[common:])
    taints = _union(p.taints for p in rest)
    inner = _union(p.forks for p in rest)
    return Text((*one.parts[:common], Part(taints=taints, forks=forks | inner)))


def _join_items(one: Items, other: Items, forks: Taints) -> Items:
    common = _common(one.items, other.items)
    rest: list[Item] = []
    for item in (*one.items[common:], *other.items[common:]):
        changed = replace(item, repeated=True, forks=item.forks | forks)
        if changed not in rest:
            rest.append(changed)
    unordered = one.unordered or other.unordered
    items = (*one.items[:common], *rest)
    return sequence(items, one.order | other.order, unordered=unordered)


def _join_entries(one: Entries, other: Entries, forks: Taints) -> Entries:
    joined = one
    for key, value in other.entries:
        mine = one.get(key)
        joined = joined.put(
            key, _perhaps(value, forks) if mine is None else join(mine, value, forks)
        )
    for key, value in one.entries:
        if other.get(key) is None:
            joined = joined.put(key, _perhaps(value, forks))
    return replace(joined, open=one.open or other.open, taints=one.taints | other.taints)


def _common(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


def _union(sets: Iterable[Taints]) -> Taints:
    return CLEAN.union(*sets)
