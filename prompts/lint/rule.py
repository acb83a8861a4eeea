"""What a rule is: one documented cause, with the check that finds it in prompt sources."""

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from prompts.lint.cost import cost_sentence
from prompts.lint.findings import Confidence, Finding, Fix, FixSafety, Place, PrefixBreak, Severity

if TYPE_CHECKING:
    from prompts.lint.agent_folder import AgentFolder
    from prompts.lint.context import LintContext
    from prompts.lint.prompt_source import PromptSource


class Subject(StrEnum):
    """Where a rule's cause can be seen."""

    TEMPLATE = "template"
    AGENT = "agent file"
    PROMPT_FILE = "prompt file"
    PYTHON = "python"
    LOG = "log"
    ENGINE_CONFIG = "engine configuration"


class Rule:
    """Base of all rules. The subclass's docstring is its documentation, with fixed headings.

    Template and prompt-file checks live in `check`, those between agent files in `check_agents`;
    the same code is emitted from Python source, request logs and engine configurations by
    `prompts.lint.python`, `cache.request_log` and `cache.engine_config`.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = Severity.WARNING
    confidence: ClassVar[Confidence] = Confidence.CONFIRMED
    fixes: ClassVar[tuple[FixSafety, ...]] = ()
    subjects: ClassVar[tuple[Subject, ...]]
    needs_tokenizer: ClassVar[bool] = False

    def check(self, prompt: "PromptSource", context: "LintContext") -> Iterator[Finding]:
        """Findings in one prompt source; nothing where the cause can't be seen there."""
        return iter(())

    def check_agents(self, folder: "AgentFolder") -> Iterator[Finding]:
        """Findings in the linted files of one folder of agents."""
        return iter(())

    def finding(
        self,
        *,
        message: str,
        place: Place,
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        cost: PrefixBreak | None = None,
        fix: Fix | None = None,
    ) -> Finding:
        """A finding of this rule; what is known of its cost is put behind the message."""
        price = cost_sentence(cost) if cost else ""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            confidence=confidence or self.confidence,
            message=f"{message} {price}".rstrip(),
            place=place,
            cost=cost,
            fix=fix,
        )
