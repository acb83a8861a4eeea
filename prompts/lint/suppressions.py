"""Suppressions: `foreword: ignore[FW101, FW2] reason` in a comment of the file's own kind.

One works for its own line, and for the line below where it stands alone on its line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from prompts.lint.findings import Finding, Place
from prompts.lint.registry import rule, unknown_words

_COMMENT = re.compile(r"foreword:\s*ignore\[([^\]]*)\]([^\r\n]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """`lines` are those that it works for; `place` is the comment's."""

    words: tuple[str, ...]
    reason: str
    place: Place
    lines: tuple[int, ...]

    def covers(self, finding: Finding) -> bool:
        """Whether the finding is of one of the rules and on one of the lines."""
        return finding.place.line in self.lines and any(
            finding.code.startswith(word) or finding.name == word for word in self.words if word
        )


def parse_suppression(comment: str, place: Place, *, alone: bool) -> Suppression | None:
    """The suppression that a comment's text spells, if any.

    `alone` says that nothing but the comment is on its line: it is then for the next line too.
    """
    found = _COMMENT.search(comment)
    if not found:
        return None
    words = tuple(word.strip() for word in found.group(1).split(",") if word.strip())
    reason = found.group(2).strip().rstrip("-").strip()
    lines = (place.line, place.line + 1) if alone else (place.line,)
    return Suppression(words=words, reason=reason, place=place, lines=lines)


def apply_suppressions(
    findings: Sequence[Finding], suppressions: Sequence[Suppression]
) -> list[Finding]:
    """Findings that aren't suppressed, and what is wrong with the suppressions themselves.

    A suppression without a reason works, and is a finding (FW904).
    """
    kept = [f for f in findings if not any(s.covers(f) for s in suppressions)]
    for suppression in suppressions:
        if not suppression.reason:
            kept.append(_without_reason(suppression))
        if not any(suppression.covers(finding) for finding in findings):
            kept.append(_unused(suppression))
    return kept


def _without_reason(suppression: Suppression) -> Finding:
    message = "The suppression gives no reason; say why the finding is right to ignore."
    return rule("FW904").finding(message=message, place=suppression.place)


def _unused(suppression: Suppression) -> Finding:
    wrong = unknown_words(suppression.words)
    if wrong or not suppression.words:
        named = ", ".join(wrong) or "nothing"
        message = f"The suppression names {named}, which is no rule; write a code such as FW101."
    else:
        named = ", ".join(suppression.words)
        message = f"Nothing here is a finding of {named} any more; delete the suppression."
    return rule("FW903").finding(message=message, place=suppression.place)
