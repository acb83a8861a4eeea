"""Arguments of a call to the parameters of a function of the module."""

import ast

from prompts.lint.python.expressions import evaluate
from prompts.lint.python.frame import Frame
from prompts.lint.python.methods import Call
from prompts.lint.python.module_index import FunctionNode, RoutineInfo
from prompts.lint.python.values import UNKNOWN, Entries, Item, Items, Opaque, taints_of


def bind_arguments(info: RoutineInfo, made: Call, inner: Frame, *, bound: bool) -> None:
    """Bind what a call gives; `bound` says that the object itself is the first argument."""
    arguments = info.node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    if bound and not info.static and names:
        names = names[1:]
    bind_unknown(info, inner)
    inner.variables.update(zip(names, made.arguments, strict=False))
    accepted = {*names, *(a.arg for a in arguments.kwonlyargs)}
    others = Entries()
    for name, value in made.keywords:
        if name in accepted:
            inner.variables[name] = value
        else:
            others = others.put(name, value)
    if arguments.kwarg is not None:
        inner.variables[arguments.kwarg.arg] = others
    given = {*names[: len(made.arguments)], *(name for name, _ in made.keywords)}
    for name, default in _defaults(info.node):
        if name not in given:
            inner.variables[name] = evaluate(default, inner)


def bind_unknown(info: RoutineInfo, inner: Frame) -> None:
    """Arguments that nothing is known of but their names, and the causes of their defaults."""
    arguments = info.node.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        inner.variables[each.arg] = Opaque(name=each.arg)
    if arguments.vararg is not None:
        inner.variables[arguments.vararg.arg] = Items((Item(UNKNOWN, repeated=True),))
    if arguments.kwarg is not None:
        inner.variables[arguments.kwarg.arg] = Entries(open=True)
    for name, default in _defaults(info.node):
        taints = taints_of(evaluate(default, inner))
        if taints:
            inner.variables[name] = Opaque(taints=taints, name=name)


def _defaults(node: FunctionNode) -> list[tuple[str, ast.expr]]:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    pairs = list(zip(reversed(names), reversed(node.args.defaults), strict=False))
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return [*pairs, *((a.arg, default) for a, default in named if default is not None)]
