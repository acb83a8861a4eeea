"""One run of a function: its variables by dotted path, its results, what it has sent."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prompts.lint.python.taints import CLEAN, Span, Taint, Taints
from prompts.lint.python.values import Opaque, Value
from prompts.lint.python.vocabulary import is_constant_name, is_scaffold, variable_kind

if TYPE_CHECKING:
    from prompts.lint.python.machine import Machine


@dataclass(slots=True, kw_only=True)
class Frame:
    """`variables` go by dotted path (`x`, `self.x`); `changed` are those changed in place.

    `conditions` are the taints of the branches that the run is in; `sent` the paths that were
    part of a prompt so far, `holders` those with fields of their own among the variables.
    `kept` are the paths of lists whose turns stay for the next prompt: sent ones, an object's.
    `discarded` is the expression of the statement at hand if nothing is done with its value.
    """

    machine: "Machine"
    variables: dict[str, Value]
    enclosing: dict[str, Value] | None = None
    owner: str | None = None
    depth: int = 0
    returns: list[tuple[Value, Taints]] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    conditions: list[Taints] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    discarded: ast.expr | None = None

    def condition(self) -> Taints:
        """The taints of all branches that the run is in."""
        return union(self.conditions)

    def lookup(self, path: str) -> Value | None:
        """What a path stands for here, in the enclosing function or in the module."""
        found = self.variables.get(path)
        if found is None and self.enclosing is not None:
            found = self.enclosing.get(path)
        return found if found is not None else self.machine.variables.get(path)


def span_of(node: ast.expr | ast.stmt) -> Span:
    """Where a node lies."""
    return Span(
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` for a plain chain of names, also through `["key"]`; else None."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=base, attr=name):
            path = dotted(base)
            return f"{path}.{name}" if path is not None else None
        case ast.Subscript(value=base, slice=ast.Constant(value=str(key))):
            path = dotted(base)
            return f"{path}.{key}" if path is not None else None
        case _:
            return None


def named(value: Value, path: str, node: ast.expr) -> Value:
    """An unknown value with the cause that its name gives away."""
    if not isinstance(value, Opaque) or value.taints or value.fixed:
        return value
    last = path.rpartition(".")[2]
    if is_constant_name(last) or is_scaffold(last):
        return Opaque(fixed=True, name=path)
    kind = variable_kind(path.removeprefix("self."))
    if kind is None:
        return value if value.name else replace(value, name=path)
    taint = Taint(kind, span_of(node), sure=False)
    return Opaque(taints=frozenset({taint}), name=path)


def union(taints: Iterable[Taints]) -> Taints:
    """All of them."""
    return CLEAN.union(*taints)
