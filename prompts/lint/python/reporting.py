"""From faults to findings: places in bytes, messages for people, fixes."""

import ast
import codecs
import io
import tokenize
from collections.abc import Sequence

from prompts.lint.cost import prefix_break
from prompts.lint.findings import (
    Confidence,
    Edit,
    Finding,
    Fix,
    FixSafety,
    Place,
    PrefixBreak,
)
from prompts.lint.options import LintOptions
from prompts.lint.python.checks import Fault
from prompts.lint.python.messages import MESSAGES, TO_THE_END
from prompts.lint.python.taints import Kind, Span
from prompts.lint.registry import rule
from prompts.lint.source_file import SourceFile

_LABEL_CHARACTERS = 60


def findings_of(
    faults: Sequence[Fault], tree: ast.Module, source: SourceFile, options: LintOptions
) -> list[Finding]:
    """One finding for each cause and rule, in the order of the file."""
    places = _Places(source)
    nodes = _Nodes(tree)
    chosen: dict[tuple[str, object], Fault] = {}
    for fault in faults:
        taint = fault.taint
        name = taint.label or places.code(taint.span)
        # A name is a cause once for each prompt, wherever it is used.
        key = (fault.code, taint.span if taint.sure else (name, fault.line))
        known = chosen.get(key)
        if known is None or _position(fault) < _position(known):
            chosen[key] = fault
    made = [_finding(fault, places, nodes, options) for fault in chosen.values()]
    return sorted(made, key=lambda f: (f.place.start, f.code))


def _position(fault: Fault) -> tuple[bool, int, int]:
    span = fault.taint.span
    return not fault.taint.sure, span.line, span.column


def _finding(fault: Fault, places: "_Places", nodes: "_Nodes", options: LintOptions) -> Finding:
    wrong, advice = MESSAGES[fault.code]
    if advice == TO_THE_END and fault.where == "the user message":
        advice = "put it behind all text that stays the same"
    # A function that returns a prompt is named with parentheses: who sends it isn't known.
    verb = "returned" if fault.label.endswith("()") else "sent"
    sender = f"{verb} by `{fault.label}` on line {fault.line}"
    label = fault.taint.label or places.code(fault.taint.span)
    message = f"{wrong.format(label, fault.where)} ({sender}); {advice}."
    return rule(fault.code).finding(
        message=message,
        place=places.place(fault.taint.span),
        confidence=Confidence.CONFIRMED if fault.taint.sure else Confidence.SUSPECTED,
        cost=_cost(fault, options),
        fix=_fix(fault, places, nodes),
    )


def _cost(fault: Fault, options: LintOptions) -> PrefixBreak | None:
    """Tokens of the known texts around the cause; None where they aren't all known."""
    if options.tokenizer is None or fault.before is None or fault.after is None:
        return None
    token = options.tokenizer.count(fault.before)
    return prefix_break(token, token + options.tokenizer.count(fault.after), options)


def _fix(fault: Fault, places: "_Places", nodes: "_Nodes") -> Fix | None:
    node = nodes.at(fault.taint.span)
    if node is None:
        return None
    if fault.taint.kind is Kind.JSON_ORDER and isinstance(node, ast.Call):
        return _sort_keys(node, places)
    if fault.taint.kind in (Kind.SET_ORDER, Kind.LISTING) and nodes.is_consumed(node):
        place = places.place(fault.taint.span)
        edits = (
            Edit(start=place.start, stop=place.start, replacement=b"sorted("),
            Edit(start=place.stop, stop=place.stop, replacement=b")"),
        )
        return Fix(safety=FixSafety.UNSAFE, description="wrap it in sorted(…)", edits=edits)
    return None


def _sort_keys(node: ast.Call, places: "_Places") -> Fix | None:
    """Give `json.dumps` a `sort_keys=True`. Source: json.dumps takes only the value by position."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    given = next((k for k in node.keywords if k.arg == "sort_keys"), None)
    if any(k.arg is None for k in node.keywords) or (
        name != "dumps" and not isinstance(node.func, ast.Name)
    ):
        return None
    if given is not None:
        place = places.place_of(given.value)
        edit = Edit(start=place.start, stop=place.stop, replacement=b"True")
    else:
        stop = _end_of_arguments(node, places)
        if stop is None:
            return None
        edit = Edit(start=stop, stop=stop, replacement=b", sort_keys=True")
    return Fix(safety=FixSafety.SAFE, description="sort the keys", edits=(edit,))


def _end_of_arguments(node: ast.Call, places: "_Places") -> int | None:
    """The byte behind the last argument and its own parentheses; None if they are the call's."""
    last = max((*node.args, *(k.value for k in node.keywords)), key=_end)
    start, stop = places.place_of(last).stop, places.place_of(node).stop
    rest = places.data(start, stop)
    if b"#" in rest or not rest.endswith(b")"):
        return None
    return start + rest[:-1].rfind(b")") + 1


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


class _Places:
    """Byte places from `ast`'s lines and columns, also where the file isn't UTF-8."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._encoding, _ = tokenize.detect_encoding(io.BytesIO(source.data).readline)

    def place(self, span: Span) -> Place:
        return self._source.place(
            self._offset(span.line, span.column), self._offset(span.end_line, span.end_column)
        )

    def place_of(self, node: ast.expr) -> Place:
        return self.place(Span(node.lineno, node.col_offset, *_end(node)))

    def data(self, start: int, stop: int) -> bytes:
        """The bytes there."""
        return self._source.data[start:stop]

    def code(self, span: Span) -> str:
        """The code there on one line, cut to a readable length."""
        place = self.place(span)
        text = self._source.data[place.start : place.stop].decode(errors="replace")
        text = " ".join(text.split())
        return text if len(text) <= _LABEL_CHARACTERS else text[: _LABEL_CHARACTERS - 1] + "…"

    def _offset(self, line: int, column: int) -> int:
        starts = self._source.line_starts
        if line > len(starts):
            return len(self._source.data)
        start = starts[line - 1]
        if line == 1 and self._source.data.startswith(codecs.BOM_UTF8):
            start += len(codecs.BOM_UTF8)
        if not self._encoding.startswith("utf-8"):
            column = self._recoded(start, column)
        return min(start + column, len(self._source.data))

    def _recoded(self, start: int, column: int) -> int:
        """Bytes in the file's own encoding that are `column` bytes in UTF-8."""
        line = self._source.data[start:].decode(self._encoding, errors="replace")
        return len(
            line.encode()[:column].decode(errors="replace").encode(self._encoding, "replace")
        )


class _Nodes:
    """The nodes at which faults enter, found again by their span, only when asked."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._by_span: dict[Span, ast.expr] = {}
        self._consumed: set[ast.expr] = set()

    def at(self, span: Span) -> ast.expr | None:
        """The expression with that span."""
        if not self._by_span:
            for node in ast.walk(self._tree):
                self._consumed |= _consumed_by(node)
                if isinstance(node, ast.expr):
                    self._by_span[Span(node.lineno, node.col_offset, *_end(node))] = node
        return self._by_span.get(span)

    def is_consumed(self, node: ast.expr) -> bool:
        """Whether the value is only gone through where it stands: a list will do as well."""
        return node in self._consumed


def _consumed_by(node: ast.AST) -> set[ast.expr]:
    match node:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.comprehension(iter=source):
            return {source}
        case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate"), args=[source, *_]):
            return {source}
        case ast.Call(func=ast.Attribute(attr="join" | "extend"), args=[source]):
            return {source}
        case _:
            return set()
