"""Results as files: JSON, and a page made from it."""

import json
from pathlib import Path
from typing import Any

from bench.faults.outcomes import HUNG_S, LIMIT_S


def write_results(result: dict[str, Any], stem: Path) -> str:
    """Write `stem`.json and .md; returns the page."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    page = page_of(result)
    stem.with_suffix(".md").write_text(page)
    return page


def page_of(result: dict[str, Any]) -> str:
    """Markdown."""
    told = result["environment"]
    lines = [
        "# Faults",
        "",
        f"`{result['command']}`, commit {told['commit']}, {told['cores']} cores.",
        "",
        f"An error must come within {LIMIT_S:g} s; a request without answer or error after "
        f"{HUNG_S:g} s hangs. *Hit*: streams running and requests waiting when the fault struck. "
        "*Failed*: errors with OpenAI's body, by code. *Whole*: seconds from the fault's end "
        "until all replicas were ready and `/readyz` named nothing new; where a supervisor "
        "starts a process again, that is in it. *Rows*: ledger rows found of those due; dropped "
        "ones are counted by the gateway.",
    ]
    for run in result["runs"]:
        lines += ["", f"## {run['title']}", "", *_table(run["verdicts"])]
        lines += [f"- {one['name']}: not done, {one['why']}" for one in run["skipped"]]
        for verdict in run["verdicts"]:
            lines += [f"- **{verdict['name']}**: {one}" for one in verdict["problems"]]
    return "\n".join([*lines, ""])


def _table(verdicts: list[dict[str, Any]]) -> list[str]:
    head = (
        "| fault | hit | sent | answered | failed | failed over | lost | hung | wrong | slowest s "
        "| slowest error s | whole s | rows | dropped |"
    )
    return [head, "|---" * 14 + "|", *(_row(verdict) for verdict in verdicts), ""]


def _row(verdict: dict[str, Any]) -> str:
    failed = ", ".join(f"{count} {code}" for code, count in verdict["failed"].items()) or "0"
    hit = f"{verdict['hit']['streaming']} + {verdict['hit']['waiting']}"
    rows = f"{verdict['rows_due'] - verdict['rows_missing']} of {verdict['rows_due']}"
    cells = (
        f"{verdict['name']}: {verdict['what']}", hit, verdict["sent"], verdict["answered"], failed,
        verdict["failed_over"], verdict["lost"], verdict["hung"], verdict["wrong"],
        verdict["slowest_s"], verdict["slowest_error_s"],
        "never" if verdict["whole_s"] is None else verdict["whole_s"], rows,
        verdict["rows_dropped"],
    )  # fmt: skip
    return f"| {' | '.join(str(cell) for cell in cells)} |"
