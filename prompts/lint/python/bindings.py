"""Assignment: values to names, attributes, keys and unpacked tuples of a frame."""

import ast
from dataclasses import replace

from prompts.lint.python.frame import Frame, dotted
from prompts.lint.python.values import (
    UNKNOWN,
    Constant,
    Entries,
    Item,
    Items,
    Opaque,
    Value,
    element,
    taints_of,
)


def bind(target: ast.expr, value: Value, frame: Frame) -> None:
    """Bind a loop's or comprehension's target."""
    match target:
        case ast.Name(id=name):
            frame.variables[name] = value
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for each, part in zip(targets, _unpacked(value, len(targets)), strict=True):
                bind(each, part, frame)
        case ast.Starred(value=inner):
            bind(inner, Items((Item(value, repeated=True),)), frame)
        case _:
            assign(target, value, frame)


def _unpacked(value: Value, count: int) -> list[Value]:
    if isinstance(value, Items) and len(value.items) == count:
        return [item.value for item in value.items]
    if isinstance(value, Items) and value.items:
        return [element(value)] * count
    taints = taints_of(value)
    return [Opaque(taints=taints) if taints else UNKNOWN] * count


def assign(target: ast.expr, value: Value, frame: Frame) -> None:
    """`target = value`; what was known of the target's own fields is forgotten."""
    match target:
        case ast.Name() | ast.Attribute():
            path = dotted(target)
            if path is not None:
                if path in frame.holders:
                    _forget_fields(path, frame)
                elif "." in path:
                    frame.holders.add(path.rpartition(".")[0])
                frame.variables[path] = value
        case ast.Subscript():
            _assign_item(target, value, frame)
        case _:
            bind(target, value, frame)


def with_kept_turns(path: str | None, value: Value, frame: Frame) -> Value:
    """What is put behind the turns of a list that is kept stays there: it isn't made anew."""
    known = frame.lookup(path) if path is not None and path in frame.kept else None
    if not isinstance(known, Items) or not isinstance(value, Items):
        return value
    start = len(known.items)
    if value.items[:start] != known.items:
        return value
    added = tuple(replace(item, rebuilt=False) for item in value.items[start:])
    return replace(value, items=(*known.items, *added))


def _forget_fields(path: str, frame: Frame) -> None:
    """Drop what is known of `path.…`."""
    prefix = f"{path}."
    for known in [name for name in frame.variables if name.startswith(prefix)]:
        del frame.variables[known]


def _assign_item(target: ast.Subscript, value: Value, frame: Frame) -> None:
    path = dotted(target.value)
    if path is None:
        if isinstance(target.value, ast.Subscript):
            _assign_nested(target.value, target, value, frame)
        return
    holder = frame.lookup(path)
    changed = with_item(holder if holder is not None else UNKNOWN, target.slice, value)
    frame.changed.add(path)
    frame.variables[path] = changed


def _assign_nested(outer: ast.Subscript, target: ast.Subscript, value: Value, frame: Frame) -> None:
    """`messages[0]["content"] = value`."""
    path = dotted(outer.value)
    holder = frame.lookup(path) if path is not None else None
    if path is None or not isinstance(holder, Items):
        return
    position = _position(outer.slice)
    if position is None or not -len(holder.items) <= position < len(holder.items):
        return
    inner = with_item(holder.items[position].value, target.slice, value)
    frame.changed.add(path)
    frame.variables[path] = _replaced(holder, position, inner)


def with_item(holder: Value, key: ast.expr, value: Value) -> Value:
    """The holder with `holder[key] = value` done."""
    match holder, key:
        case Entries(), ast.Constant(value=str(name)):
            return holder.put(name, value)
        case Entries(), _:
            taints = holder.taints | taints_of(value)
            return replace(holder, open=True, taints=taints)
        case Items(), ast.Slice(lower=None, upper=None) if isinstance(value, Items):
            return value
        case Items(), _:
            position = _position(key)
            if position is not None and -len(holder.items) <= position < len(holder.items):
                return _replaced(holder, position, value)
            return holder
        case Opaque() | Constant(), ast.Constant(value=str(name)):
            return Entries(((name, value),), open=True, taints=taints_of(holder))
        case _:
            return holder


def _replaced(holder: Items, position: int, value: Value) -> Items:
    items = list(holder.items)
    items[position] = replace(items[position], value=value)
    return replace(holder, items=tuple(items))


def _position(key: ast.expr) -> int | None:
    match key:
        case ast.Constant(value=int(position)):
            return position
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(position))):
            return -position
        case _:
            return None
