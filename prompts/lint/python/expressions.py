"""Expressions to values. Calls go through the machine, which knows functions and libraries."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from prompts.lint.python.bindings import assign, bind
from prompts.lint.python.frame import Frame, dotted, named, span_of, union
from prompts.lint.python.methods import (
    Call,
    format_percent,
    formatted,
    keys,
    updated,
)
from prompts.lint.python.operators import (
    added,
    as_items,
    environment_variable,
    is_at,
    set_operation,
    sliced,
)
from prompts.lint.python.sources import ATTRIBUTES
from prompts.lint.python.taints import CLEAN, ORDER_KINDS, PER_REQUEST, Kind, Taint, Taints, without
from prompts.lint.python.values import (
    UNKNOWN,
    Constant,
    Entries,
    Item,
    Items,
    Message,
    Opaque,
    PromptTemplate,
    Reference,
    Text,
    Value,
    as_text,
    concatenated,
    element,
    join,
    known_string,
    literal,
    sequence,
    taints_of,
)
from prompts.lint.python.vocabulary import is_history

_UNROLLED_ITEMS = 40
# Methods whose result has all of what they are called on.
_WHOLE = frozenset({"copy", "items"})

Handler: TypeAlias = Callable[..., Value]


def evaluate(node: ast.expr, frame: Frame) -> Value:
    """What an expression stands for."""
    if not frame.machine.step():
        return UNKNOWN
    handler = _HANDLERS.get(type(node))
    return handler(node, frame) if handler else _unknown(node, frame)


def _unknown(node: ast.expr, frame: Frame) -> Value:
    children = (c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
    return Opaque(taints=union(taints_of(evaluate(child, frame)) for child in children))


def _constant(node: ast.Constant, _: Frame) -> Value:
    return literal(node.value) if isinstance(node.value, str) else Constant(node.value)


def _name(node: ast.Name, frame: Frame) -> Value:
    found = frame.lookup(node.id)
    if found is None:
        found = frame.machine.outer_name(node.id)
    return named(found, node.id, node)


def _attribute(node: ast.Attribute, frame: Frame) -> Value:
    path = dotted(node)
    if path is not None and (found := frame.lookup(path)) is not None:
        return named(found, path, node)
    base = evaluate(node.value, frame)
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and frame.owner:
        routine = frame.machine.method_of(frame.owner, node.attr)
        if routine is not None:
            return frame.machine.read_method(routine, frame, span_of(node))
    return _attribute_of(base, node, path)


def _attribute_of(base: Value, node: ast.Attribute, path: str | None) -> Value:
    match base:
        case Reference():
            name = f"{base.name}.{node.attr}"
            if name in ATTRIBUTES:
                taint = Taint(ATTRIBUTES[name], span_of(node))
                return Opaque(taints=frozenset({taint}), name=name)
            return Reference(name)
        case Message() if node.attr in ("content", "text"):
            return base.content
        case Entries():
            found = base.get(node.attr)
            if found is not None:
                return found
    return _part_of(base, node, path)


def _part_of(base: Value, node: ast.expr, path: str | None) -> Value:
    """A field of something unknown: it shares its causes, and has a name of its own."""
    taints = taints_of(base)
    if not (isinstance(node, ast.Attribute) and node.attr in _WHOLE):
        taints = without(taints, frozenset({Kind.PARSED}))
    part = named(Opaque(name=path or ""), path, node) if path else UNKNOWN
    if isinstance(part, Opaque) and part.taints:
        return replace(part, taints=part.taints | without(taints, PER_REQUEST))
    if isinstance(part, Opaque) and part.fixed and not taints:
        return part
    return Opaque(taints=taints, name=path or "")


def _subscript(node: ast.Subscript, frame: Frame) -> Value:
    path = dotted(node)
    if path is not None and (found := frame.variables.get(path)) is not None:
        return found
    base = evaluate(node.value, frame)
    if isinstance(node.slice, ast.Slice):
        return _slice(base, node, node.slice, frame)
    key = evaluate(node.slice, frame)
    match base, key:
        case Reference(name="os.environ"), Text():
            return environment_variable(known_string(key), span_taint(node, Kind.MACHINE))
        case Entries(), Text():
            found = base.get(known_string(key) or "")
            return found if found is not None else _part_of(base, node, path)
        case Items(), Constant(value=int(position)) if is_at(base, position):
            return base.items[position].value
        case Items(), _:
            return element(base)
    return _part_of(base, node, path)


def span_taint(node: ast.expr, kind: Kind, *, sure: bool = True) -> Taints:
    """The node as a cause."""
    return frozenset({Taint(kind, span_of(node), sure)})


def _slice(base: Value, node: ast.Subscript, cut: ast.Slice, frame: Frame) -> Value:
    truncation = truncation_of(node, cut, frame)
    if isinstance(base, Opaque) and not is_history(base.name.rpartition(".")[2]):
        truncation = frozenset(replace(taint, sure=False) for taint in truncation)
    return sliced(base, cut, truncation)


def truncation_of(node: ast.expr, cut: ast.Slice, frame: Frame) -> Taints:
    """The slice as a cause if it keeps the last items, as `[-n:]` does."""
    match cut:
        case ast.Slice(lower=ast.UnaryOp(op=ast.USub(), operand=operand), upper=None):
            # The last item alone is no conversation that could be cut off.
            is_last = evaluate(operand, frame) in (Constant(0), Constant(1))
            return CLEAN if is_last else span_taint(node, Kind.TRUNCATED)
        case ast.Slice(lower=ast.BinOp(op=ast.Sub()), upper=None):
            return span_taint(node, Kind.TRUNCATED)
        case ast.Slice(lower=ast.Name() as start, upper=None):
            match evaluate(start, frame):
                case Constant(value=int(position)):
                    return span_taint(node, Kind.TRUNCATED) if position < 0 else CLEAN
                case _:
                    return span_taint(node, Kind.TRUNCATED, sure=False)
    return CLEAN


def _joined_string(node: ast.JoinedStr, frame: Frame) -> Value:
    return concatenated([as_text(evaluate(value, frame)) for value in node.values])


def _formatted_value(node: ast.FormattedValue, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    if node.format_spec is None:
        return as_text(value)
    form = known_string(evaluate(node.format_spec, frame)) or ""
    return formatted(value, form, Call((), (), span_of(node.value)))


def _binary(node: ast.BinOp, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    match node.op:
        case ast.Add():
            return added(left, right)
        case ast.Mod() if isinstance(left, Text):
            return format_percent(left, right)
        case ast.Mult() if isinstance(left, Text):
            return left
        case ast.BitOr() if isinstance(left, Entries):
            return updated(left, right)
        case ast.BitOr() if isinstance(left, PromptTemplate):
            return left
        case ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor() if isinstance(left, Items):
            return set_operation(left, right, node.op, span_taint(node, Kind.SET_ORDER))
    return Opaque(taints=taints_of(left) | taints_of(right))


def _boolean(node: ast.BoolOp, frame: Frame) -> Value:
    values = [evaluate(value, frame) for value in node.values]
    joined = values[0]
    for value in values[1:]:
        joined = join(joined, value)
    return joined


def _comparison(node: ast.Compare, frame: Frame) -> Value:
    operands = [evaluate(node.left, frame), *(evaluate(c, frame) for c in node.comparators)]
    return Opaque(taints=without(union(taints_of(v) for v in operands), ORDER_KINDS))


def _unary(node: ast.UnaryOp, frame: Frame) -> Value:
    value = evaluate(node.operand, frame)
    match node.op, value:
        case ast.USub(), Constant(value=int() | float() as number):
            return Constant(-number)
        case ast.Not(), Constant(value=known):
            return Constant(not known)
    return Opaque(taints=taints_of(value))


def _conditional(node: ast.IfExp, frame: Frame) -> Value:
    test = evaluate(node.test, frame)
    if isinstance(test, Constant):
        return evaluate(node.body if test.value else node.orelse, frame)
    return join(evaluate(node.body, frame), evaluate(node.orelse, frame), taints_of(test))


def _list(node: ast.List | ast.Tuple, frame: Frame) -> Value:
    items: list[Item] = []
    order = CLEAN
    for each in node.elts:
        value = evaluate(each.value if isinstance(each, ast.Starred) else each, frame)
        if isinstance(each, ast.Starred):
            more = as_items(value)
            items += more.items
            order |= more.order
        else:
            items.append(Item(value))
    return sequence(items, order)


def _set(node: ast.Set, frame: Frame) -> Value:
    items = [Item(evaluate(each, frame)) for each in node.elts]
    order = span_taint(node, Kind.SET_ORDER) if len(items) > 1 else CLEAN
    return sequence(items, order, unordered=True)


def _dict(node: ast.Dict, frame: Frame) -> Value:
    entries = Entries()
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(value_node, frame)
        if key_node is None:
            entries = updated(entries, value)
            continue
        key = known_string(evaluate(key_node, frame))
        if key is None:
            more = entries.taints | taints_of(value)
            entries = replace(entries, open=True, taints=more)
        else:
            entries = entries.put(key, value)
    return entries


def _list_comprehension(node: ast.ListComp | ast.GeneratorExp, frame: Frame) -> Value:
    items, order = _comprehended([node.elt], node.generators, frame)
    return sequence((Item(v[0], r, True, f) for v, r, f in items), order)


def _set_comprehension(node: ast.SetComp, frame: Frame) -> Value:
    items, order = _comprehended([node.elt], node.generators, frame)
    order |= span_taint(node, Kind.SET_ORDER)
    return sequence((Item(v[0], r, True, f) for v, r, f in items), order, unordered=True)


def _dict_comprehension(node: ast.DictComp, frame: Frame) -> Value:
    items, order = _comprehended([node.key, node.value], node.generators, frame)
    entries = Entries(taints=order)
    for (key, value), repeated, forks in items:
        known = known_string(key)
        if known is None or repeated:
            more = entries.taints | taints_of(value) | taints_of(key) | forks
            entries = replace(entries, open=True, taints=more)
        else:
            entries = entries.put(known, value)
    return entries


_Made: TypeAlias = tuple[list[Value], bool, Taints]


def _comprehended(
    results: Sequence[ast.expr], generators: Sequence[ast.comprehension], frame: Frame
) -> tuple[list[_Made], Taints]:
    """(values, any number of them, taints of the filter) for each item, and the order's taints."""
    first, *inner = generators
    source = evaluate(first.iter, frame)
    order = source.order if isinstance(source, Items) else CLEAN
    saved = dict(frame.variables)
    made: list[_Made] = []
    for value, repeated in _iterations(source):
        bind(first.target, value, frame)
        forks = union(taints_of(evaluate(test, frame)) for test in first.ifs)
        filtered = bool(first.ifs)
        if inner:
            nested, more = _comprehended(results, inner, frame)
            order |= more
            made += [(v, r or repeated or filtered, f | forks) for v, r, f in nested]
        else:
            values = [evaluate(result, frame) for result in results]
            made.append((values, repeated or filtered, forks))
    frame.variables.clear()
    frame.variables.update(saved)
    return made, order


def _iterations(source: Value) -> list[tuple[Value, bool]]:
    """What a loop binds, one by one if all items are known; True stands for any number."""
    if isinstance(source, Entries):
        source = keys(source)
    if isinstance(source, Items) and not source.order and len(source.items) <= _UNROLLED_ITEMS:
        return [(item.value, item.repeated) for item in source.items]
    return [(element(source), True)]


def _lambda(node: ast.Lambda, frame: Frame) -> Value:
    return UNKNOWN


def _await(node: ast.Await | ast.Starred, frame: Frame) -> Value:
    return evaluate(node.value, frame)


def _walrus(node: ast.NamedExpr, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    assign(node.target, value, frame)
    return value


def _yield(node: ast.Yield, frame: Frame) -> Value:
    if node.value is not None:
        frame.yields.append(evaluate(node.value, frame))
    return UNKNOWN


def _call(node: ast.Call, frame: Frame) -> Value:
    return frame.machine.call(node, frame)


_HANDLERS: dict[type[ast.expr], Handler] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.JoinedStr: _joined_string,
    ast.FormattedValue: _formatted_value,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.UnaryOp: _unary,
    ast.IfExp: _conditional,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.ListComp: _list_comprehension,
    ast.GeneratorExp: _list_comprehension,
    ast.SetComp: _set_comprehension,
    ast.DictComp: _dict_comprehension,
    ast.Lambda: _lambda,
    ast.Await: _await,
    ast.Starred: _await,
    ast.NamedExpr: _walrus,
    ast.Yield: _yield,
    ast.Call: _call,
}
