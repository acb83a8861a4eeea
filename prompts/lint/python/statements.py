"""Statements: what a frame's variables are after them. Branches are joined, loops run twice."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from prompts.lint.python.bindings import assign, bind, with_kept_turns
from prompts.lint.python.expressions import evaluate, truncation_of
from prompts.lint.python.frame import Frame, dotted, span_of
from prompts.lint.python.methods import updated
from prompts.lint.python.operators import added, as_items
from prompts.lint.python.taints import CLEAN, Kind, Taint, Taints
from prompts.lint.python.values import (
    UNKNOWN,
    Constant,
    Entries,
    Item,
    Items,
    Message,
    Routine,
    Text,
    Value,
    element,
    join,
    taints_of,
)
from prompts.lint.python.vocabulary import is_history

_UNROLLED_ITEMS = 12


def execute(statements: Sequence[ast.stmt], frame: Frame) -> bool:
    """Run statements; True if the end of them is never reached."""
    return any(_run(statement, frame) for statement in statements)


def _run(node: ast.stmt, frame: Frame) -> bool:
    if not frame.machine.step():
        return False
    match node:
        case ast.Expr():
            frame.discarded = node.value
            evaluate(node.value, frame)
        case ast.Assign():
            _assign(node, frame)
        case ast.AnnAssign():
            if node.value is not None:
                assign(node.target, evaluate(node.value, frame), frame)
        case ast.AugAssign():
            _augmented(node, frame)
        case ast.Return():
            value = evaluate(node.value, frame) if node.value else Constant(None)
            frame.returns.append((value, frame.condition()))
            return True
        case ast.If():
            return _branch(node, frame)
        case ast.For() | ast.AsyncFor():
            _for(node, frame)
        case ast.While():
            evaluate(node.test, frame)
            _loop(node.body, frame)
        case ast.With() | ast.AsyncWith():
            return _with(node, frame)
        case ast.Try() | ast.TryStar():
            _try(node, frame)
        case ast.Match():
            _match(node, frame)
        case ast.Delete():
            _delete(node, frame)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            frame.variables[node.name] = Routine(node.name)
            frame.machine.close_over(node.name, frame)
        case ast.Raise() | ast.Continue() | ast.Break():
            return True
    return False


def _assign(node: ast.Assign, frame: Frame) -> None:
    value = evaluate(node.value, frame)
    for target in node.targets:
        _begin_anew(target, node.value, frame)
        assign(target, with_kept_turns(dotted(target), value, frame), frame)
    if frame.sent and len(node.targets) == 1:
        _notice_late_cut(_path_of(node.targets[0]), value, frame)


def _begin_anew(target: ast.expr, source: ast.expr, frame: Frame) -> None:
    """A list that is spelled out without what its name held before keeps no earlier turns."""
    path = dotted(target)
    start = source
    while isinstance(start, ast.BinOp):
        start = start.left
    if path in frame.kept and isinstance(start, ast.List | ast.ListComp):
        inner = (dotted(n) for n in ast.walk(source) if isinstance(n, ast.Name | ast.Attribute))
        if path not in inner:
            frame.kept.discard(path)


def _path_of(target: ast.expr) -> str | None:
    """The dotted path of what is assigned, as a whole or as `target[:]`."""
    match target:
        case ast.Subscript(value=whole, slice=ast.Slice()):
            return dotted(whole)
        case _:
            return dotted(target)


def _notice_late_cut(path: str | None, value: Value, frame: Frame) -> None:
    """`history = history[-10:]` after the history was sent: the next prompt lacks its start."""
    if path is not None and is_history(path.rpartition(".")[2]):
        frame.machine.cut_after_sending(
            value.order if isinstance(value, Items) else taints_of(value)
        )


def _augmented(node: ast.AugAssign, frame: Frame) -> None:
    held = evaluate(node.target, frame)
    value = evaluate(node.value, frame)
    match node.op:
        case ast.Add() if isinstance(value, Message) or (
            isinstance(held, Items) and isinstance(value, Text)
        ):
            made: Value = _appended(held, value)
        case ast.Add() if isinstance(held, Items):
            more = as_items(value)
            made = replace(held, items=(*held.items, *more.items), order=held.order | more.order)
        case ast.Add():
            made = added(held, value)
        case ast.BitOr() if isinstance(held, Entries):
            made = updated(held, value)
        case _:
            made = join(held, value) if isinstance(held, Items) else UNKNOWN
    assign(node.target, with_kept_turns(dotted(node.target), made, frame), frame)


def _appended(held: Value, message: Message | Text) -> Items:
    """SGLang's `s += sgl.system(...)`."""
    items = held.items if isinstance(held, Items) else ()
    return Items((*items, Item(message)))


def _branch(node: ast.If, frame: Frame) -> bool:
    test = evaluate(node.test, frame)
    if isinstance(test, Constant) and isinstance(test.value, bool):
        return execute(node.body if test.value else node.orelse, frame)
    return _either([node.body, node.orelse], taints_of(test), frame)


def _either(bodies: Sequence[Sequence[ast.stmt]], forks: Taints, frame: Frame) -> bool:
    """Run each body from the same start and join what the variables are after those that end."""
    before = dict(frame.variables)
    frame.conditions.append(forks)
    results: list[dict[str, Value]] = []
    for body in bodies:
        frame.variables.clear()
        frame.variables.update(before)
        if not execute(body, frame):
            results.append(dict(frame.variables))
    frame.conditions.pop()
    _restore(frame, results or [before], forks)
    return not results


def _restore(frame: Frame, results: Sequence[dict[str, Value]], forks: Taints) -> None:
    merged = results[0]
    for other in results[1:]:
        merged = joined(merged, other, forks)
    frame.variables.clear()
    frame.variables.update(merged)


def joined(one: dict[str, Value], other: dict[str, Value], forks: Taints) -> dict[str, Value]:
    """Variables after one of two ways; one that only one way sets keeps that value."""
    changed = {name: value for name, value in other.items() if one.get(name) is not value}
    for name, value in changed.items():
        mine = one.get(name)
        changed[name] = value if mine is None else join(mine, value, forks)
    return one | changed


def _for(node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    source = evaluate(node.iter, frame)
    items = source.items if isinstance(source, Items) and not source.order else ()
    if 0 < len(items) <= _UNROLLED_ITEMS and not any(item.repeated for item in items):
        for item in items:
            bind(node.target, item.value, frame)
            _either([node.body], CLEAN, frame)
        return
    value = element(source)
    sent_before = frame.machine.sent_count()
    before = {name: value for name, value in frame.variables.items() if isinstance(value, Items)}
    bind(node.target, value, frame)
    _loop(node.body, frame, node.target, value)
    if frame.machine.sent_count() == sent_before:
        _mark_rebuilt(before, frame)


def _mark_rebuilt(before: Mapping[str, Items], frame: Frame) -> None:
    """What a loop that sends nothing put into lists is made anew each time the code runs.

    Not so in a list that is kept: its earlier turns stay as they went out.
    """
    for name, value in list(frame.variables.items()):
        known = before.get(name)
        is_kept = name in frame.kept
        if isinstance(value, Items) and known is not None and value != known and not is_kept:
            items = tuple(
                replace(item, rebuilt=True) if item.repeated and item not in known.items else item
                for item in value.items
            )
            frame.variables[name] = replace(value, items=items)


def _loop(
    body: Sequence[ast.stmt],
    frame: Frame,
    target: ast.expr | None = None,
    value: Value = UNKNOWN,
) -> None:
    """None, one or more runs of the body."""
    for _ in range(2):
        before = dict(frame.variables)
        if target is not None:
            bind(target, value, frame)
        execute(body, frame)
        _restore(frame, [before, dict(frame.variables)], CLEAN)


def _with(node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
    for item in node.items:
        value = evaluate(item.context_expr, frame)
        if item.optional_vars is not None:
            assign(item.optional_vars, value, frame)
    return execute(node.body, frame)


def _try(node: ast.Try | ast.TryStar, frame: Frame) -> None:
    before = dict(frame.variables)
    results = []
    if not execute([*node.body, *node.orelse], frame):
        results.append(dict(frame.variables))
    after = joined(before, dict(frame.variables), CLEAN)
    for handler in node.handlers:
        frame.variables.clear()
        frame.variables.update(after)
        if not execute(handler.body, frame):
            results.append(dict(frame.variables))
    _restore(frame, results or [after], CLEAN)
    execute(node.finalbody, frame)


def _match(node: ast.Match, frame: Frame) -> None:
    forks = taints_of(evaluate(node.subject, frame))
    _either([case.body for case in node.cases] + [[]], forks, frame)


def _delete(node: ast.Delete, frame: Frame) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                frame.variables.pop(name, None)
            case ast.Subscript(value=holder) if (path := dotted(holder)) is not None:
                _delete_item(path, target, frame)


def _delete_item(path: str, target: ast.Subscript, frame: Frame) -> None:
    """`del history[0]`, `del history[:-10]`: the first ones go."""
    held = frame.lookup(path)
    match target.slice:
        case ast.Constant(value=0 | 1):
            is_front = True
        case ast.Slice(lower=None, upper=upper) if upper is not None:
            is_front = True
        case ast.Slice(lower=ast.Constant(value=0 | 1)):
            is_front = True
        case ast.Slice() as cut:
            is_front = bool(truncation_of(target, cut, frame))
        case _:
            is_front = False
    if not is_front or isinstance(held, Entries):
        return
    cut_taints = frozenset({Taint(Kind.TRUNCATED, span_of(target))})
    items = as_items(held if held is not None else UNKNOWN)
    frame.variables[path] = replace(items, order=items.order | cut_taints)
    frame.changed.add(path)
    if path in frame.sent:
        frame.machine.cut_after_sending(cut_taints)
