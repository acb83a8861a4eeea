"""Prompt faults in Python source: parse, follow the data into the prompts, report at its source."""

import ast
import io
import tokenize
import warnings

from prompts.lint.findings import Finding
from prompts.lint.options import LintOptions
from prompts.lint.python.checks import Fault, faults_of
from prompts.lint.python.layout import layout_of
from prompts.lint.python.machine import Machine
from prompts.lint.python.module_index import ModuleIndex, index_module, may_hold_prompts
from prompts.lint.python.reporting import findings_of
from prompts.lint.python.taints import Kind
from prompts.lint.registry import rule
from prompts.lint.source_file import SourceFile
from prompts.lint.suppressions import Suppression, apply_suppressions, parse_suppression

# Steps for each byte of source: enough to follow every call, and an end for tangled code.
_STEPS_PER_BYTE = 1
_LEAST_STEPS = 30_000
_STEPS_PER_FUNCTION = 8_000


def lint_python(source: SourceFile, options: LintOptions) -> list[Finding]:
    """The findings in a Python file, in its order; suppressed ones are left out.

    Code is never run. A file that Python can't parse is itself a finding (FW901); one that is
    nested deeper than Python's own stack has none.
    """
    try:
        tree = _parsed(source.data)
        index = index_module(tree) if may_hold_prompts(source.data) else None
    except (SyntaxError, ValueError) as error:
        return _wanted([_unparsable(source, error)], options)
    except (RecursionError, MemoryError):
        return []
    suppressions = _suppressions(source)
    found: list[Finding] = []
    if index is not None:
        faults = _faults(tree, index, source, options)
        found = _wanted(findings_of(faults, tree, source, options), options)
    return _wanted(apply_suppressions(found, suppressions), options) if suppressions else found


def _parsed(data: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(data)


def _faults(
    tree: ast.Module, index: ModuleIndex, source: SourceFile, options: LintOptions
) -> list[Fault]:
    if not index.relevant and not index.module_relevant:
        return []
    budget = max(_LEAST_STEPS, _STEPS_PER_BYTE * len(source.data))
    machine = Machine(index, budget=budget, root_budget=_STEPS_PER_FUNCTION)
    machine.run(tree)
    faults = [
        fault
        for sent in machine.sent
        for fault in faults_of(layout_of(sent), page_size=options.page_size)
    ]
    return faults + _later_faults(machine)


def _later_faults(machine: Machine) -> list[Fault]:
    """What is done to a conversation after it was sent, for the next prompt."""
    if not machine.sent:
        return []
    last = machine.sent[-1]
    codes = {Kind.TRUNCATED: "FW602", Kind.STRIPPED: "FW604", Kind.RESERIALISED: "FW404"}
    return [
        Fault(
            code=codes[taint.kind],
            taint=taint,
            where="the conversation",
            line=last.line,
            label=last.label,
        )
        for taint in machine.cuts | machine.kept
    ]


def _wanted(findings: list[Finding], options: LintOptions) -> list[Finding]:
    return [finding for finding in findings if options.wants(finding.code, finding.name)]


def _unparsable(source: SourceFile, error: SyntaxError | ValueError) -> Finding:
    line = getattr(error, "lineno", None) or 1
    line = min(max(line, 1), len(source.line_starts))
    problem = error.msg if isinstance(error, SyntaxError) else str(error)
    message = (
        f"Python can't parse this file ({problem}), so it was not checked; correct the syntax."
    )
    return rule("FW901").finding(message=message, place=source.line_place(line))


def _suppressions(source: SourceFile) -> list[Suppression]:
    if b"foreword:" not in source.data:
        return []
    found = []
    for token in tokenize.tokenize(io.BytesIO(source.data).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        before = token.line[:column]
        place = source.line_place(line, len(before.encode()))
        suppression = parse_suppression(token.string, place, alone=not before.strip())
        if suppression is not None:
            found.append(suppression)
    return found
