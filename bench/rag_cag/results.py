"""Results as files: JSON with records, machine and command, and a page made from it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.rag_cag import tables
from bench.soak.environment import environment

Result = dict[str, Any]

_PAGES: Mapping[str, Callable[[Result], str]] = {
    "ttft": tables.ttft_page,
    "tenants": tables.tenants_page,
    "auto": tables.auto_page,
}


def result_of(
    kind: str, *, engine: str, command: str, options: Mapping[str, Any], measured: Any
) -> Result:
    """What is written down of a run; `engine` says what was behind the gateway."""
    return {
        "schema_version": 1,
        "kind": kind,
        "engine": engine,
        "command": command,
        "options": dict(options),
        "environment": environment(),
        "measured": measured,
    }


def write_result(result: Result, stem: Path) -> str:
    """Write `stem`.json and .md; returns the page."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(result, ensure_ascii=False) + "\n")
    page = _PAGES[result["kind"]](result)
    stem.with_suffix(".md").write_text(page)
    return page


def rebuilt(file: Path) -> str:
    """The page once more, from the JSON alone."""
    return write_result(json.loads(file.read_text()), file.with_suffix(""))
