"""Fixes applied until there is nothing left to fix, and never so that a file breaks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prompts.lint.findings import Finding, Fix, FixSafety, apply_fixes
from prompts.lint.source_file import SourceFile

_ROUNDS = 10
_SYNTAX = "FW901"

Lint = Callable[[SourceFile], Sequence[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFile:
    """A file after fixing; `fixed` counts the fixes that were applied."""

    source: SourceFile
    fixed: int


def fix_file(source: SourceFile, lint: Lint, *, unsafe: bool = False) -> FixedFile:
    """The file with all fixes applied; a fix after which it can't be read any more is left out."""
    count = 0
    for _ in range(_ROUNDS):
        fixes = [f.fix for f in lint(source) if f.fix is not None and _allowed(f.fix, unsafe)]
        after, applied = _apply(source, fixes, lint)
        if after.data == source.data:
            break
        source, count = after, count + applied
    return FixedFile(source=source, fixed=count)


def _allowed(fix: Fix, unsafe: bool) -> bool:
    return unsafe or fix.safety is FixSafety.SAFE


def _apply(source: SourceFile, fixes: Sequence[Fix], lint: Lint) -> tuple[SourceFile, int]:
    """All fixes at once if the file stays readable, else those that leave it so, one by one."""
    fixes = _apart(fixes)
    after = SourceFile(source.path, apply_fixes(source.data, fixes))
    if not _broken(after, lint):
        return after, len(fixes)
    kept: list[Fix] = []
    for fix in fixes:
        attempt = SourceFile(source.path, apply_fixes(source.data, [*kept, fix]))
        if not _broken(attempt, lint):
            kept.append(fix)
    return SourceFile(source.path, apply_fixes(source.data, kept)), len(kept)


def _apart(fixes: Sequence[Fix]) -> list[Fix]:
    """The fixes that don't meet an earlier one; the others wait for the next round."""
    kept: list[Fix] = []
    for fix in fixes:
        if all(_disjoint(fix, other) for other in kept):
            kept.append(fix)
    return kept


def _disjoint(one: Fix, other: Fix) -> bool:
    return all(
        a.stop <= b.start or b.stop <= a.start for a in one.edits for b in other.edits
    ) and not any(a.start == b.start for a in one.edits for b in other.edits)


def _broken(source: SourceFile, lint: Lint) -> bool:
    return any(finding.code == _SYNTAX for finding in lint(source))
