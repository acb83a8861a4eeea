"""Operators and slices on values: pure, no code is looked at."""

import ast
from dataclasses import replace

from prompts.lint.python.methods import keys
from prompts.lint.python.sources import MACHINE_VARIABLE
from prompts.lint.python.taints import ORDER_KINDS, Taints, without
from prompts.lint.python.values import (
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
    sequence,
    taints_of,
)
from prompts.lint.python.vocabulary import is_history


def added(left: Value, right: Value) -> Value:
    """`left + right`: texts and lists one after the other."""
    if isinstance(left, Items) or isinstance(right, Items):
        one, other = as_items(left), as_items(right)
        return sequence((*one.items, *other.items), one.order | other.order)
    if isinstance(left, Opaque) and isinstance(right, Opaque):
        if any(is_history(v.name.rpartition(".")[2]) for v in (left, right)):
            return added(as_items(left), right)
    elif isinstance(left, Constant) and isinstance(right, Constant):
        return UNKNOWN
    return concatenated([as_text(left), as_text(right)])


def as_items(value: Value) -> Items:
    """The value as a list: an unknown one is any number of unknown items."""
    match value:
        case Items():
            return value
        case Entries():
            return keys(value)
        case Constant(None):
            return Items()
        case _:
            inner = Opaque(taints=taints_of(value), name=getattr(value, "name", ""))
            return Items((Item(inner, repeated=True),))


def set_operation(left: Items, right: Value, operator: ast.operator, order: Taints) -> Items:
    """A set made of sets; it is itself the cause, not the sets that it was made of."""
    more = right.items if isinstance(operator, ast.BitOr) and isinstance(right, Items) else ()
    kept = without(left.order, ORDER_KINDS)
    return sequence((*left.items, *more), kept | order, unordered=True)


def sliced(base: Value, cut: ast.Slice, truncation: Taints) -> Value:
    """`base[cut]`; `truncation` is the slice as a cause if it keeps the last items."""
    match base:
        case Items():
            if truncation or cut.lower is not None:
                return _tail_of(base, cut, truncation)
            exact = cut.upper is None and cut.step is None
            return base if exact else _any_of(base)
        case Text():
            return Text((Part(taints=taints_of(base) | truncation, fixed=not truncation),))
        case Opaque():
            return replace(base, taints=base.taints | truncation, fixed=False)
    return Opaque(taints=taints_of(base) | truncation)


def _any_of(base: Items) -> Items:
    return replace(base, items=tuple(replace(item, repeated=True) for item in base.items))


def _tail_of(base: Items, cut: ast.Slice, truncation: Taints) -> Items:
    lower = cut.lower.value if isinstance(cut.lower, ast.Constant) else None
    if isinstance(lower, int) and cut.upper is None:
        return replace(base, items=base.items[lower:])
    if not truncation:
        return _any_of(base)
    items = tuple(replace(i, repeated=True) for i in base.items if i.repeated) or tuple(
        replace(i, repeated=True) for i in base.items[-1:]
    )
    return replace(base, items=items, order=base.order | truncation)


def is_at(base: Items, position: int) -> bool:
    """Whether the item at a position is known: none before it stands for any number."""
    if not -len(base.items) <= position < len(base.items):
        return False
    before = base.items[: position + 1] if position >= 0 else base.items[position:]
    return not any(item.repeated for item in before)


def environment_variable(name: str | None, taints: Taints) -> Value:
    """The value of an environment variable: of a machine, or a setting of the deployment."""
    if name is not None and MACHINE_VARIABLE.fullmatch(name):
        return Opaque(taints=taints, name=name)
    return Opaque(fixed=True, name=name or "")
