"""One walk over a Jinja tree: pieces in sent order, and the calls, filters and loops in them.

Values are followed through `set`, `with`, loops and macros; a loop variable is of the kind of what
is looped over. What a name of unknown meaning holds is taken for a constant of the deployment.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import jinja2.nodes as n

from prompts.lint.jinja_source import JinjaSource, PromptSyntaxError
from prompts.lint.pieces import (
    CONSTANT,
    Attribute,
    Branch,
    Call,
    Facts,
    Filter,
    Fork,
    Loop,
    Nature,
    Reference,
    Repeat,
    Slice,
    Text,
    Value,
)
from prompts.lint.tree import (
    constant_argument,
    dotted_name,
    is_blank,
    is_now,
    message_role,
    output_names,
    speaks,
    targets,
    targets_of,
)
from prompts.lint.vocabulary import (
    Kind,
    kind_of_call,
    kind_of_filter,
    kind_of_function,
    kind_of_name,
)

Root = Callable[[str], Nature]
# The parsed text of a file that an include or import names; None if it isn't known.
Files = Callable[[str], JinjaSource | None]

# What things in a list are, and so no more than that: `document.date` is the document's.
_CONTAINERS = frozenset(
    {Kind.CONTEXT, Kind.HISTORY, Kind.EXAMPLES, Kind.TOOLS, Kind.SAMPLE, Kind.TOOL_CHOICE}
)
_ORDERED_AWAY = frozenset({"length", "count", "sum", "max", "min"})
# Globals of Jinja that are functions of their arguments.
_PLAIN_GLOBALS = frozenset({"range", "dict", "namespace", "cycler", "joiner", "raise_exception"})


def named(name: str) -> Nature:
    """The nature of an undeclared variable: what its name says."""
    kind = kind_of_name(name)
    kinds = frozenset({kind}) if kind else frozenset()
    return Nature(kinds=kinds, names=frozenset({name}))


def no_files(name: str) -> JinjaSource | None:
    """No other file is known."""
    return None


def walk(source: JinjaSource, root: Root = named, files: Files = no_files) -> Facts:
    """The facts of a parsed text; `root` tells the nature of variables it doesn't set itself.

    What an included file sends counts as sent by the include; its own faults are its own.

    Raises:
        PromptSyntaxError: it is nested too deeply.
    """
    walker = _Walker(source, root, files)
    try:
        walker.body(source.tree.body)
    except RecursionError as error:
        raise PromptSyntaxError(0, "it is nested too deeply") from error
    return walker.facts


class _Walker:
    def __init__(
        self, source: JinjaSource, root: Root, files: Files, opened: frozenset[str] = frozenset()
    ) -> None:
        """`opened` are the files whose includes led here."""
        self.facts = Facts()
        self.scopes: list[dict[str, Nature]] = [{}]
        self._source = source
        self._root = root
        self._files = files
        self._opened = opened
        self._nested = 0
        self._certain = True
        self._loops: list[Nature] = []
        self._sent = False
        self._statements: dict[type[n.Node], Callable[..., None]] = {
            n.Output: self._output,
            n.If: self._if,
            n.For: self._for,
            n.Assign: self._assign,
            n.AssignBlock: self._assign_block,
            n.Macro: self._macro,
            n.CallBlock: self._call_block,
            n.With: self._with,
            n.FilterBlock: self._filter_block,
            n.Include: self._include,
            n.Import: self._import,
            n.FromImport: self._from_import,
            n.Extends: self._extends,
            n.ExprStmt: self._expression_statement,
        }
        self._expressions: dict[type[n.Node], Callable[..., Nature]] = {
            n.Name: self._name,
            n.Const: lambda node, around: CONSTANT,
            n.TemplateData: lambda node, around: CONSTANT,
            n.Call: self._call,
            n.Filter: self._filter,
            n.Getattr: self._getattr,
            n.Getitem: self._getitem,
            n.Div: self._operation,
            n.CondExpr: self._conditional,
        }

    def body(self, nodes: Iterable[n.Node]) -> None:
        for node in nodes:
            visit = self._statements.get(type(node))
            if visit is not None:
                visit(node)
            else:
                self.body(node.iter_child_nodes(exclude=("name",)))

    def expression(self, node: n.Node | None, around: tuple[str, ...] = ()) -> Nature:
        if node is None:
            return CONSTANT
        visit = self._expressions.get(type(node))
        if visit is not None:
            return visit(node, around)
        nature = CONSTANT
        for child in node.iter_child_nodes():
            nature = nature | self.expression(child, around)
        return nature

    # Statements

    def _output(self, node: n.Output) -> None:
        for child in node.nodes:
            if isinstance(child, n.TemplateData):
                self._text(child.lineno, child.lineno + len(child.data), child.data)
                continue
            self._sent = True
            nature = self.expression(child)
            self._sent = False
            start, stop = self._source.tag(child.lineno)
            if isinstance(child, n.Const):
                self._text(start, stop, str(child.value))
            else:
                self._piece(Value(start, stop, nature, self._nested > 0))

    def _text(self, start: int, stop: int, text: str) -> None:
        if text:
            self._piece(Text(start, stop, text, self._certain))

    def _piece(self, piece: Text | Value | Fork | Loop) -> None:
        self.facts.pieces.append(piece)

    def _if(self, node: n.If) -> None:
        nature = self.expression(node.test)
        for branch in node.elif_:
            nature = nature | self.expression(branch.test)
        self.facts.branches.append(Branch(node, nature, tuple(self._loops)))
        index = len(self.facts.pieces)
        certain, depends = self._certain, not nature.constant
        self._certain = certain and not depends
        self._nested += depends
        for body in (node.body, *(branch.body for branch in node.elif_), node.else_):
            self.body(body)
        self._nested -= depends
        self._certain = certain
        if depends:
            start, stop = self._source.tag(node.lineno)
            inside = self.facts.pieces[index:]
            fork = Fork(
                start,
                stop,
                nature,
                nested=self._nested > 0,
                outputs=output_names(inside),
                empty=not speaks(inside),
                blank=is_blank(node, inside),
            )
            self.facts.pieces.insert(index, fork)

    def _for(self, node: n.For) -> None:
        nature = self.expression(node.iter)
        start, stop = self._source.tag(node.lineno)
        depends = not nature.constant
        index = len(self.facts.pieces)
        self.facts.repeats.append(Repeat(node, nature))
        certain = self._certain
        self._certain = certain and not depends
        self._nested += depends
        self._loops.append(nature)
        self.scopes.append({"loop": CONSTANT} | dict.fromkeys(targets(node.target), nature))
        self.expression(node.test)
        self.body(node.body)
        self.scopes.pop()
        self._loops.pop()
        self.body(node.else_)
        self._nested -= depends
        self._certain = certain
        if depends and speaks(self.facts.pieces[index:]):
            loop = Loop(start, stop, nature, self._nested > 0)
            self.facts.pieces.insert(index, loop)

    def _assign(self, node: n.Assign) -> None:
        nature = self.expression(node.node)
        for name in targets(node.target):
            self.scopes[-1][name] = nature

    def _assign_block(self, node: n.AssignBlock) -> None:
        nature = self._aside(node.body)
        for name in targets(node.target):
            self.scopes[-1][name] = nature

    def _macro(self, node: n.Macro) -> None:
        parameters = {arg.name: CONSTANT for arg in node.args}
        self.scopes.append(parameters | {"caller": CONSTANT})
        nature = self._aside(node.body)
        self.scopes.pop()
        self.scopes[-1][node.name] = nature

    def _aside(self, body: list[n.Node]) -> Nature:
        """The nature of what a body sends, without sending it here."""
        index = len(self.facts.pieces)
        self.body(body)
        nature = CONSTANT
        for piece in self.facts.pieces[index:]:
            if not isinstance(piece, Text):
                nature = nature | piece.nature
        del self.facts.pieces[index:]
        return nature

    def _call_block(self, node: n.CallBlock) -> None:
        role = message_role(node.call)
        if role:
            self.facts.roles.append((node.lineno, role))
        nature = self.expression(node.call)
        if not nature.constant:
            start, stop = self._source.tag(node.lineno)
            self._piece(Value(start, stop, nature, self._nested > 0))
        self.scopes.append(dict.fromkeys(targets_of(node.args), CONSTANT))
        self.body(node.body)
        self.scopes.pop()

    def _with(self, node: n.With) -> None:
        natures = [self.expression(value) for value in node.values]
        scope: dict[str, Nature] = {}
        for target, nature in zip(node.targets, natures, strict=True):
            scope |= dict.fromkeys(targets(target), nature)
        self.scopes.append(scope)
        self.body(node.body)
        self.scopes.pop()

    def _filter_block(self, node: n.FilterBlock) -> None:
        self.expression(node.filter)
        self.body(node.body)

    def _include(self, node: n.Include) -> None:
        other = self._reference(node, optional=node.ignore_missing)
        if other is None:
            return
        start, stop = self._source.tag(node.lineno)
        for piece in other.facts.pieces:
            if isinstance(piece, Text):
                certain = piece.certain and self._certain
                self._piece(Text(start, stop, piece.text, certain))
            else:
                nested = piece.nested or self._nested > 0
                self._piece(replace(piece, start=start, stop=stop, nested=nested))

    def _import(self, node: n.Import) -> None:
        other = self._reference(node)
        self.scopes[-1][node.target] = CONSTANT
        for name, nature in (other.scopes[0] if other else {}).items():
            self.scopes[-1][f"{node.target}.{name}"] = nature

    def _from_import(self, node: n.FromImport) -> None:
        other = self._reference(node)
        natures = other.scopes[0] if other else {}
        for imported in node.names:
            name, alias = (imported, imported) if isinstance(imported, str) else imported
            self.scopes[-1][alias] = natures.get(name, CONSTANT)

    def _reference(
        self, node: n.Include | n.Import | n.FromImport | n.Extends, *, optional: bool = False
    ) -> "_Walker | None":
        """Note the other file; walk it if it is known and doesn't lead back here."""
        name = node.template.value if isinstance(node.template, n.Const) else None
        self.facts.references.append(Reference(node.lineno, name, optional))
        if not isinstance(name, str) or name in self._opened:
            return None
        source = self._files(name)
        if source is None:
            return None
        other = _Walker(source, self._name_known, self._files, self._opened | {name})
        other.body(source.tree.body)
        return other

    def _extends(self, node: n.Extends) -> None:
        self._reference(node)

    def _name_known(self, name: str) -> Nature:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return self._root(name)

    def _expression_statement(self, node: n.ExprStmt) -> None:
        self.expression(node.node)

    # Expressions

    def _name(self, node: n.Name, around: tuple[str, ...]) -> Nature:
        return self._name_known(node.name)

    def _call(self, node: n.Call, around: tuple[str, ...]) -> Nature:
        dotted = dotted_name(node.node)
        nature = self._receiver(node, dotted, around)
        for argument in (*node.args, *node.kwargs):
            nature = nature | self.expression(argument)
        kind = kind_of_call(dotted) if dotted else None
        if kind is None and dotted == "lookup" and constant_argument(node) == "env":
            kind = Kind.ENVIRONMENT
        if self._known(dotted):
            kind = None
        elif kind is not None:
            nature = nature.plus(kind)
        elif dotted and not nature.kinds and not isinstance(node.node, n.Getattr):
            guessed = kind_of_function(dotted)
            nature = nature.plus(guessed, proven=False) if guessed else nature
        self.facts.calls.append(Call(node, dotted, nature, around))
        return nature

    def _receiver(self, node: n.Call, dotted: str, around: tuple[str, ...]) -> Nature:
        if isinstance(node.node, n.Name):
            own = any(node.node.name in scope for scope in self.scopes)
            return self._name(node.node, around) if own else CONSTANT
        if isinstance(node.node, n.Getattr):
            if any(dotted in scope for scope in self.scopes):
                return self._name_known(dotted)
            receiver = node.node.node
            if isinstance(receiver, n.Name) and kind_of_call(dotted):
                return CONSTANT
            return self.expression(receiver, around)
        return self.expression(node.node, around)

    def _known(self, dotted: str) -> bool:
        """Whether the template itself sets the name in front."""
        first = dotted.partition(".")[0]
        return first in _PLAIN_GLOBALS or any(first in scope for scope in self.scopes)

    def _filter(self, node: n.Filter, around: tuple[str, ...]) -> Nature:
        nature = self.expression(node.node, (*around, node.name))
        for argument in (*node.args, *node.kwargs):
            nature = nature | self.expression(argument)
        kind = kind_of_filter(node.name)
        if node.name in ("date", "strftime") and is_now(node.node):
            kind = Kind.CLOCK
        self.facts.filters.append(Filter(node, nature, around))
        if node.name in _ORDERED_AWAY and nature.kinds <= {Kind.EXAMPLES, Kind.TOOLS}:
            return Nature(names=nature.names, declared=nature.declared)
        return nature.plus(kind) if kind else nature

    def _getattr(self, node: n.Getattr, around: tuple[str, ...]) -> Nature:
        return self._member(node, node.attr, around)

    def _getitem(self, node: n.Getitem, around: tuple[str, ...]) -> Nature:
        if isinstance(node.arg, n.Const) and isinstance(node.arg.value, str):
            return self._member(node, node.arg.value, around)
        nature = self.expression(node.node, around)
        if isinstance(node.arg, n.Slice):
            self.facts.slices.append(Slice(node, nature))
        return nature | self.expression(node.arg)

    def _member(self, node: n.Getattr | n.Getitem, name: str, around: tuple[str, ...]) -> Nature:
        nature = self.expression(node.node, around)
        self.facts.attributes.append(Attribute(node, name, nature, self._sent))
        if nature.constant or nature.kinds & _CONTAINERS or nature.declared is not None:
            return nature
        kind = kind_of_name(name)
        if kind is None and isinstance(node.node, n.Name):
            kind = kind_of_name(f"{node.node.name}_{name}")
        return nature.plus(kind, proven=False) if kind else nature

    def _operation(self, node: n.BinExpr, around: tuple[str, ...]) -> Nature:
        nature = self.expression(node.left, around) | self.expression(node.right, around)
        if self._sent and not nature.constant and not around:
            self.facts.operations.append(node)
        return nature

    def _conditional(self, node: n.CondExpr, around: tuple[str, ...]) -> Nature:
        chosen = self.expression(node.expr1, around) | self.expression(node.expr2, around)
        return chosen | self.expression(node.test)
