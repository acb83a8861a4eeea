"""Judges configurations: all files of one deployment together."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cache.engine_config.deployment import Deployment
from cache.engine_config.reading import ConfigKind, read_config
from cache.engine_config.rules_adapters import adapter_findings
from cache.engine_config.rules_exposure import exposure_findings
from cache.engine_config.rules_lmcache import lmcache_findings
from cache.engine_config.rules_redis import redis_findings
from cache.engine_config.rules_reports import report_findings
from cache.engine_config.rules_spelling import spelling_findings
from cache.engine_config.rules_transfer import transfer_findings
from cache.engine_config.rules_tree import tree_findings
from cache.engine_config.server_info import read_server_info
from prompts.lint.findings import Finding, Severity
from prompts.lint.linter import LintResult
from prompts.lint.source_file import SourceFile
from prompts.lint.suppressions import Suppression, apply_suppressions, parse_suppression

_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n]*foreword:[^\r\n]*", re.MULTILINE)
_OF_TOOLS = "FW751"
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def lint_configs(sources: Iterable[SourceFile], kind: ConfigKind | None = None) -> LintResult:
    """The findings in the files of one deployment, in the order of places.

    Args:
        kind: what the files are; told by their content if it is not said.

    Raises:
        EngineConfigError: a file can't be read, or configures nothing that is known here.
    """
    read = list(sources)
    processes = tuple(process for source in read for process in read_config(source, kind))
    suppressions = [each for source in read for each in _suppressions(source)]
    kept = apply_suppressions(list(_judge(Deployment(processes=processes))), suppressions)
    ordered = sorted(dict.fromkeys(kept), key=lambda f: (str(f.place.path), f.place.start, f.code))
    return LintResult(findings=tuple(ordered), files=len(read), skipped=())


def check_engine(
    server_info: Mapping[str, Any],
    *,
    guarded: bool | None = None,
    chunk_tokens: int | None = None,
    has_tools: bool = False,
) -> tuple[Finding, ...]:
    """What is wrong with a running engine, by what it says of itself; the worst comes first.

    Args:
        server_info: SGLang's `/server_info`.
        guarded: whether Foreword's guard is loaded in it; None where that is not known.
        chunk_tokens: LMCache's chunk, where it is known.
        has_tools: whether requests bring tools: then it has to read calls.
    """
    text = json.dumps(server_info, ensure_ascii=False, indent=1, default=str)
    source = SourceFile(Path("server_info"), text.encode())
    engines = [replace(engine, guarded=guarded) for engine in read_server_info(source)]
    judged = _judge(Deployment(processes=tuple(engines)), chunk_tokens)
    found = [_live(finding) for finding in judged if has_tools or finding.code != _OF_TOOLS]
    return tuple(sorted(found, key=lambda f: (_ORDER.index(f.severity), f.code)))


def _live(finding: Finding) -> Finding:
    """Of an engine that requests bring tools to, what is of tools is no mere note."""
    return replace(finding, severity=Severity.WARNING) if finding.code == _OF_TOOLS else finding


def _judge(deployment: Deployment, chunk_tokens: int | None = None) -> Iterator[Finding]:
    yield from report_findings(deployment)
    yield from tree_findings(deployment)
    yield from lmcache_findings(deployment)
    yield from transfer_findings(deployment, chunk_tokens)
    yield from adapter_findings(deployment)
    yield from exposure_findings(deployment)
    yield from redis_findings(deployment)
    yield from spelling_findings(deployment)


def _suppressions(source: SourceFile) -> Iterator[Suppression]:
    if b"foreword:" not in source.data:
        return
    for match in _COMMENT.finditer(source.text):
        place = source.characters(match.start(), match.end())
        alone = source.line_text(place.line).strip() == match.group().strip()
        found = parse_suppression(match.group(), place, alone=alone)
        if found is not None:
            yield found
