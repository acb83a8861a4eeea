"""Findings as GitHub workflow commands, which show as annotations at the lines.

Source: GitHub Actions toolkit, packages/core/src/command.ts (what is escaped).
"""

from collections.abc import Iterator

from prompts.lint.findings import Finding, Severity
from prompts.lint.linter import LintResult
from prompts.lint.visible import path_text

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_output(result: LintResult) -> Iterator[str]:
    """One command a line."""
    for finding in result.findings:
        yield _command(finding)


def _command(finding: Finding) -> str:
    place = finding.place
    properties = {
        "file": path_text(place.path),
        "line": str(place.line),
        "col": str(place.column),
        "title": f"{finding.code} {finding.name}",
    }
    named = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {named}::{_data(finding.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
