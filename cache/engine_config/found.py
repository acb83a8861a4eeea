"""How the rules of this package say what they found."""

from collections.abc import Iterator

from cache.engine_config.view import Process, Setting, Written
from prompts.lint.findings import Confidence, Finding, Place, Severity
from prompts.lint.registry import rule

Found = Iterator[Finding]


def found(
    code: str,
    message: str,
    at: Place | Written | Setting,
    *,
    severity: Severity | None = None,
    confidence: Confidence | None = None,
) -> Finding:
    """A finding of a rule, at a place."""
    match at:
        case Setting():
            place = at.at.place
        case Written():
            place = at.place
        case _:
            place = at
    return rule(code).finding(
        message=message, place=place, severity=severity, confidence=confidence
    )


def missing(code: str, message: str, process: Process, name: str) -> Finding:
    """A finding about a setting that is missing or off."""
    return found(code, message, process.place(name))
