"""Findings as SARIF 2.1.0, for code scanning.

Source: OASIS Static Analysis Results Interchange Format 2.1.0.
"""

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prompts.lint.docs import title
from prompts.lint.findings import Finding, Fix, Severity
from prompts.lint.linter import LintResult
from prompts.lint.registry import RULES
from prompts.lint.rule import Rule
from prompts.lint.visible import path_text

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_INDEX = {rule.code: index for index, rule in enumerate(RULES)}


def sarif_output(result: LintResult, version: str) -> str:
    """One SARIF log with one run; columns count Unicode code points."""
    driver = {"name": "Foreword", "version": version, "rules": [_rule(rule) for rule in RULES]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in result.findings],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=2)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": title(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding) -> dict[str, Any]:
    place = finding.place
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "byteOffset": place.start,
        "byteLength": place.stop - place.start,
    }
    location = {"artifactLocation": _artifact(place.path), "region": region}
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": _INDEX[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"foreword/v1": _fingerprint(finding)},
        "properties": {"confidence": finding.confidence.value},
    }
    if finding.fix is not None:
        result["fixes"] = [_fix(finding.fix, place.path)]
    return result


def _fix(fix: Fix, path: Path) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {"byteOffset": edit.start, "byteLength": edit.stop - edit.start},
            "insertedContent": {"text": edit.replacement.decode()},
        }
        for edit in fix.edits
    ]
    change = {"artifactLocation": _artifact(path), "replacements": replacements}
    return {"description": {"text": fix.description}, "artifactChanges": [change]}


def _artifact(path: Path) -> dict[str, str]:
    return {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))}


def _fingerprint(finding: Finding) -> str:
    """The same for a finding that only moved to another line."""
    digest = blake2b(digest_size=16)
    for part in (finding.code, path_text(finding.place.path), finding.message):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()
