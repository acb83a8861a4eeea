"""A soak's result as files: JSON, Markdown, and the samples it was made from."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from bench.soak.environment import environment
from bench.soak.judge import RULE, Judgement
from bench.soak.result import Result, rejudged
from bench.soak.samples import Sample, sample_of

_ROWS = 20


def write_result(result: Result, samples: Sequence[Sample], stem: Path) -> str:
    """Write `stem`.json and .md; returns the Markdown."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    return _write(result, samples, stem, environment())


def rebuild(file: Path) -> str:
    """Both files again from the JSON: memory is judged anew, the rest stays as it was seen."""
    record = orjson.loads(file.read_bytes())
    samples = [sample_of(fields) for fields in record["samples"]]
    result = rejudged(record["result"], samples)
    return _write(result, samples, file.with_suffix(""), record["environment"])


def _write(
    result: Result, samples: Sequence[Sample], stem: Path, measured: dict[str, object]
) -> str:
    record = {
        "schema_version": 1,
        "simulated": True,
        "environment": measured,
        "result": asdict(result) | {"good": result.good},
        "rule": RULE,
        "samples": [asdict(sample) for sample in samples],
    }
    # The last suffix of a name like `soak-0.1` is no suffix.
    stem.with_name(f"{stem.name}.json").write_bytes(
        orjson.dumps(record, default=str, option=orjson.OPT_INDENT_2) + b"\n"
    )
    text = markdown(result, samples, measured)
    stem.with_name(f"{stem.name}.md").write_text(text)
    return text


def markdown(result: Result, samples: Sequence[Sample], measured: dict[str, object]) -> str:
    """The result for readers; can be made again from the JSON."""
    options = result.options
    lines = [
        f"# Soak: {result.requests:,} requests",
        "",
        "The gateway's real process in front of the **simulated** engine: what it says about "
        "memory, the ledger and the gateway's own work holds; times of answers are worth nothing "
        "beyond this page.",
        "",
        *([] if result.is_million else [_not_a_million(result), ""]),
        f"**{verdict(result.memory)}**",
        "",
        *_memory_lines(result.memory, samples),
        "",
        RULE,
        "",
        "| check | | seen |",
        "|---|---|---|",
        *(f"| {c.name} | {'yes' if c.good else '**NO**'} | {c.seen} |" for c in result.checks),
        "",
        *(f"- {difference}" for difference in result.findings.differences),
        f"Outcomes in the last life: {_counted(result.statuses)}.",
        f"Verdicts: {_counted(result.findings.verdicts)}.",
        f"Lost tokens: {_counted(result.findings.lost_tokens)}.",
        "",
        *_table(samples),
        "",
        f"{options.workers} clients at a time, {options.collections} collections, seed "
        f"{options.seed}, an index of {options.max_pages:,} pages, "
        f"{options.conversation_mb} MiB for conversations and {options.opening_mb} for prompts' "
        "beginnings, a simulated pool of "
        f"{options.pool_tokens:,} tokens, accounting {'on' if options.accounting else 'off'}. "
        f"{measured['processor']}, {measured['cores']} cores, load average "
        f"{_loads(samples)}, Python {measured['python']}, commit {measured['commit']}.",
        "",
    ]
    return "\n".join(lines)


def verdict(memory: Judgement) -> str:
    """One sentence."""
    if memory.flat is None:
        return f"Not judged: {'; '.join(memory.problems)}."
    if memory.flat:
        return "Flat: the gateway stayed the same size."
    return f"Not flat: {'; '.join(memory.problems)}."


def _not_a_million(result: Result) -> str:
    return (
        f"This run is of {result.requests:,} requests, not of a million: growth slower than "
        "what is stated below can't be seen in it."
    )


def _memory_lines(memory: Judgement, samples: Sequence[Sample]) -> list[str]:
    if memory.growth is None or memory.slope_range is None or memory.bytes_per_request is None:
        return []
    low, high = memory.slope_range
    return [
        f"Resident memory over the last half: {memory.growth:+.2%}, "
        f"{memory.bytes_per_request:+,.0f} bytes a request (5th to 95th percentile of slopes "
        f"{low:+,.0f} to {high:+,.0f}), over the last quarter "
        f"{memory.late_bytes_per_request or 0:+,.0f}; a million requests would add "
        f"{memory.after_million() or 0:+,.0f} MiB at the first of these. It ended at "
        f"{samples[-1].rss_kb / 1024:,.0f} MiB.",
    ]


def _table(samples: Sequence[Sample]) -> list[str]:
    step = max(1, len(samples) // _ROWS)
    shown = [*samples[step - 1 :: step]]
    header = (
        "| requests | RSS MiB | fds | threads | index pages | ledger MiB | roll-up rows | "
        "CPU ms a request | TTFT ms p50 / p99 | added ms p50 / p99 | simulator MiB |"
    )
    return [header, "|" + "---|" * (header.count("|") - 1), *map(_row, shown)]


def _row(s: Sample) -> str:
    cells = (
        f"{s.requests:,}",
        f"{s.rss_kb / 1024:.1f}",
        str(s.descriptors),
        str(s.threads),
        f"{s.index_pages:,.0f}",
        f"{s.ledger_kb / 1024:,.1f}",
        f"{s.rollup_rows:,}",
        f"{s.cpu_us / 1e3:.2f}",
        _pair(s.ttft_ms),
        _pair(s.added_ms),
        f"{s.simulator_kb / 1024:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _pair(pair: tuple[float | None, float | None]) -> str:
    return " / ".join("-" if value is None else f"{value:.1f}" for value in pair)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def _loads(samples: Sequence[Sample]) -> str:
    loads = [sample.load_average for sample in samples]
    return f"{min(loads):.1f} to {max(loads):.1f} (median {statistics.median(loads):.1f})"
