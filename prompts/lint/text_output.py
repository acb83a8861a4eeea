"""Findings for people: place, code, message, the source line with a caret, a summary."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from prompts.lint.findings import Finding, FixSafety, Severity
from prompts.lint.linter import LintResult
from prompts.lint.source_file import SourceFile
from prompts.lint.visible import path_text, visible, visible_characters, width

_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}
_SHOWN_CHARACTERS = 100
_BEFORE_CARET = 60


def text_output(
    result: LintResult, sources: Mapping[Path, SourceFile], *, colour: bool
) -> Iterator[str]:
    """Lines to print; `sources` are the files that the findings are in."""
    for finding in result.findings:
        yield _head(finding, colour)
        source = sources.get(finding.place.path)
        if source is not None:
            yield from _excerpt(finding, source)
    yield summary(result)


def summary(result: LintResult) -> str:
    """How much was found, and what can be fixed."""
    files = _count(result.files, "file")
    if not result.findings:
        return f"{files}: nothing found."
    parts = [
        _count(sum(f.severity is severity for f in result.findings), severity.value)
        for severity in Severity
        if any(f.severity is severity for f in result.findings)
    ]
    return f"{files}: {', '.join(parts)}.{_fixable(result)}"


def _fixable(result: LintResult) -> str:
    safe = sum(_has_fix(finding, FixSafety.SAFE) for finding in result.findings)
    unsafe = sum(_has_fix(finding, FixSafety.UNSAFE) for finding in result.findings)
    words = [f"{safe:,} can be fixed with --fix"] if safe else []
    if unsafe:
        words.append(f"{unsafe:,} {'more ' if safe else 'can be fixed '}with --unsafe-fixes")
    return f" {', '.join(words)}." if words else ""


def _has_fix(finding: Finding, safety: FixSafety) -> bool:
    return finding.fix is not None and finding.fix.safety is safety


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _head(finding: Finding, colour: bool) -> str:
    path = visible(path_text(finding.place.path))
    place = f"{path}:{finding.place.line}:{finding.place.column}"
    kind = f"{finding.severity} {finding.code} {finding.name}"
    if colour:
        kind = f"\x1b[{_COLOURS[finding.severity]}m{kind}\x1b[0m"
    return f"{place}: {kind} ({finding.confidence})\n  {visible(finding.message)}"


def _excerpt(finding: Finding, source: SourceFile) -> Iterator[str]:
    """The source line, cut around the place if it is long, and a caret under it."""
    place = finding.place
    marked_end = source.data[place.start : place.stop].startswith(b"\r")
    line = source.line_text(place.line, carriage_return=marked_end)
    marked = source.data[place.start : place.stop].decode(errors="replace")
    length = max(len(marked.splitlines()[0]) if marked.strip() else len(marked), 1)
    characters = visible_characters(line)
    at = min(place.column - 1, len(characters))
    first = max(0, at - _BEFORE_CARET) if len(characters) > _SHOWN_CHARACTERS else 0
    shown = characters[first : first + _SHOWN_CHARACTERS]
    before, under = shown[: at - first], shown[at - first : at - first + length]
    opening = "…" if first else ""
    closing = "…" if first + _SHOWN_CHARACTERS < len(characters) else ""
    yield f"    {opening}{''.join(shown)}{closing}"
    indent = " " * (width(opening) + width("".join(before)))
    yield f"    {indent}{'^' * max(width(''.join(under)), 1)}"
