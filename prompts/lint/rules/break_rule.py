"""What the rules about one cause of an early end of the prefix share."""

from collections.abc import Iterator
from typing import ClassVar

from prompts.lint.breaks import Break
from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, Severity
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule
from prompts.lint.segment_moves import moving_fix
from prompts.lint.vocabulary import Kind
from prompts.segments import Volatility


class BreakRule(Rule):
    """Base of rules about a break of one cause: `said` completes a sentence, `advice` follows.

    Those with `fixes` offer to move a template's segments.
    """

    causes: ClassVar[tuple[Kind, ...]] = ()
    said: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for found in prompt.breaks:
            if self.takes(found):
                yield self.report(found, prompt, context)

    def takes(self, found: Break) -> bool:
        """Whether a break is this rule's."""
        return not found.forks and found.cause in self.causes and not found.at.in_last_turn

    def report(self, found: Break, prompt: PromptSource, context: LintContext) -> Finding:
        """The finding for a break, with its cost."""
        at = found.at
        confidence = Confidence.CONFIRMED if found.proven else Confidence.SUSPECTED
        severity = self.severity
        if severity is Severity.ERROR and not found.proven:
            severity = Severity.WARNING
        named = at.part.label(at.piece) or at.part.segment
        return self.finding(
            message=f"{named}{_declared(found)} {self.said}; {self.advice}.",
            place=at.part.place(at.piece),
            severity=severity,
            confidence=confidence,
            cost=context.cost(prompt, at.index),
            fix=moving_fix(prompt, found) if self.fixes else None,
        )


def _declared(found: Break) -> str:
    """The declaration, where it says that the value changes."""
    declared = found.at.piece.nature.declared
    if declared in (None, Volatility.STATIC):
        return ""
    return f" (declared {declared.label})"
