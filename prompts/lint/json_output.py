"""Findings for programs: JSON with a schema version."""

import json
from typing import Any

from prompts.lint.findings import Finding, Fix, PrefixBreak
from prompts.lint.linter import LintResult
from prompts.lint.visible import path_text

SCHEMA_VERSION = 1


def json_output(result: LintResult) -> str:
    """One JSON object; unknown counts are null."""
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "files": result.files,
            "skipped_rules": list(result.skipped),
            "findings": [finding_json(finding) for finding in result.findings],
        },
        ensure_ascii=False,
        indent=2,
    )


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "path": path_text(finding.place.path),
        "line": finding.place.line,
        "column": finding.place.column,
        "byte_start": finding.place.start,
        "byte_stop": finding.place.stop,
        "cost": cost_json(finding.cost) if finding.cost else None,
        "fix": _fix(finding.fix) if finding.fix else None,
    }


def cost_json(cost: PrefixBreak) -> dict[str, Any]:
    """Where the prefix breaks, and what that costs."""
    return {
        "segment": cost.segment,
        "token": cost.token,
        "of": cost.of,
        "page_tokens": cost.page_tokens,
        "chunk_tokens": cost.chunk_tokens,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "safety": fix.safety.value,
        "description": fix.description,
        "edits": [
            {"start": edit.start, "stop": edit.stop, "replacement": edit.replacement.decode()}
            for edit in fix.edits
        ],
    }
