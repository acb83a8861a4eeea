"""A template as an operator looks at it: its segments, what they cost, and what lint finds. Pure,
but for the template's own file, which is read again: a running gateway keeps what it has loaded."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prompts import PromptTokenizer
from prompts.errors import TemplateError
from prompts.lint.docs import explain, title
from prompts.lint.findings import Finding
from prompts.lint.json_output import cost_json
from prompts.lint.linter import Linter, LintResult
from prompts.lint.options import LintOptions
from prompts.lint.registry import rule
from prompts.lint.source_file import SourceFile
from prompts.lock import LockedTemplate, lock_templates
from prompts.template import Segment, Template
from prompts.template_file import parse_template


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateView:
    """What is known of a template.

    Attributes:
        locked: digests and token counts, as in the lock file.
        lint: None where the file can't be read any more.
        changed: whether the file says something else than what was loaded; None: it can't be read.
    """

    template: Template
    locked: LockedTemplate
    lint: LintResult | None
    changed: bool | None

    def json(self) -> dict[str, Any]:
        """Unknown is null; no path of this machine is told."""
        lint = self.lint
        findings = () if lint is None else lint.findings
        return {
            "object": "foreword.template",
            "name": self.template.name,
            "version": self.template.version,
            "reference": self.template.reference,
            "fingerprint": self.locked.fingerprint,
            "scaffold_tokens": self.locked.scaffold_tokens,
            "changed_on_disk": self.changed,
            "variables": [
                {
                    "name": variable.name,
                    "type": variable.type.value,
                    "volatility": variable.volatility.label,
                    "optional": variable.optional,
                }
                for variable in self.template.variables.values()
            ],
            "segments": [
                _segment_json(segment, locked.tokens)
                for segment, locked in zip(
                    self.template.segments, self.locked.segments, strict=True
                )
            ],
            "lint": None
            if lint is None
            else {
                "findings": [self._finding_json(finding) for finding in findings],
                "skipped_rules": list(lint.skipped),
                "rules": _rules_json(findings),
            },
        }

    def _finding_json(self, finding: Finding) -> dict[str, Any]:
        line = finding.place.line
        above = [segment.id for segment in self.template.segments if segment.line <= line]
        return {
            "code": finding.code,
            "name": finding.name,
            "severity": finding.severity.value,
            "confidence": finding.confidence.value,
            "message": finding.message,
            "line": line,
            "column": finding.place.column,
            "segment": above[-1] if above else None,
            "cost": cost_json(finding.cost) if finding.cost else None,
            "fix": finding.fix.description if finding.fix else None,
        }


def view_template(
    template: Template, *, tokenizer: PromptTokenizer | None, options: LintOptions
) -> TemplateView:
    """Lints the template's file; without a tokenizer tokens aren't counted. Reads the file."""
    locked = lock_templates([template], tokenizer).templates[template.reference]
    try:
        source = SourceFile(template.path, template.path.read_bytes())
    except OSError:
        return TemplateView(template=template, locked=locked, lint=None, changed=None)
    lint = Linter(options).lint([source])
    return TemplateView(
        template=template, locked=locked, lint=lint, changed=_read(source) != template
    )


def _read(source: SourceFile) -> Template | None:
    try:
        return parse_template(source.path, source.data)
    except TemplateError:
        return None


def _segment_json(segment: Segment, tokens: int | None) -> dict[str, Any]:
    return {
        "id": segment.id,
        "role": segment.role,
        "volatility": segment.volatility.label,
        "line": segment.line,
        "text": segment.source or None,
        "messages": segment.messages,
        "uses": list(segment.uses),
        "tokens": tokens,
    }


def _rules_json(findings: Iterable[Finding]) -> dict[str, dict[str, str]]:
    found = {finding.code: rule(finding.code) for finding in findings}
    return {
        code: {"title": title(each), "text": explain(each)} for code, each in sorted(found.items())
    }
