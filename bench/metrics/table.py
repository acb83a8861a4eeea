"""A run's summaries as tables for people. Pure."""

from collections.abc import Iterator

from rich.table import Table

from bench.metrics.bounds import Reuse
from bench.metrics.intervals import Distribution, Estimate
from bench.metrics.summary import Summary
from bench.run_folder import RunFacts


def heading(facts: RunFacts) -> str:
    """What was run, and whether it counts."""
    simulated = {True: " (simulated: its times say nothing)", False: "", None: ""}
    valid = "valid" if facts.valid else f"NOT VALID: {'; '.join(facts.reasons)}"
    lag = "unknown" if facts.lag_p99_s is None else f"{facts.lag_p99_s * 1000:.2f} ms"
    generator = "" if facts.generator is None else f" ({facts.generator})"
    told = facts.counted
    counted = (
        ""
        if told is None
        else (
            f"\nthe engines themselves counted {told.cached_tokens:,} cached of "
            f"{told.prompt_tokens:,} prompt tokens in {told.requests:,} requests"
        )
    )
    return (
        f"{facts.workload.name} → {facts.target.url} [{facts.target.kind}"
        f"{simulated[facts.target.simulated]}], {facts.model}, {_load(facts)}\n"
        f"{valid}; generator lag p99 {lag}{generator}{counted}"
    )


def _load(facts: RunFacts) -> str:
    load = facts.load
    parts = [load.kind]
    if load.rate_per_s is not None:
        parts.append(f"{load.rate_per_s:g}/s")
    if load.burstiness is not None:
        parts.append(f"burstiness {load.burstiness:g}")
    if load.speedup not in (None, 1):
        parts.append(f"speed {load.speedup:g}")
    if load.concurrency is not None:
        parts.append(f"at most {load.concurrency} at a time")
    return ", ".join(parts)


def times_table(summary: Summary) -> Table:
    """The times of one phase, with intervals of 95 %."""
    table = Table(title=f"{summary.phase}: {summary.requests} requests, {summary.failed} failed")
    table.add_column("ms")
    for name in ("mean", "p50", "p90", "p99", "n", "unknown"):
        table.add_column(name, justify="right")
    for name, times in (
        ("TTFT", summary.ttft),
        ("ITL", summary.itl),
        ("TPOT", summary.tpot),
        ("E2E", summary.e2e),
    ):
        table.add_row(name, *_row(times))
    return table


def _row(times: Distribution) -> Iterator[str]:
    for estimate in (times.mean, times.p50, times.p90, times.p99):
        yield _ms(estimate)
    yield str(times.n)
    yield str(times.unknown)


def _ms(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    point = f"{estimate.value * 1000:.2f}"
    if estimate.low is None or estimate.high is None:
        return point
    return f"{point} [{estimate.low * 1000:.2f}, {estimate.high * 1000:.2f}]"


def summary_lines(summary: Summary, reuse: Reuse | None) -> Iterator[str]:
    """All that isn't a time."""
    throughput = summary.throughput
    yield (
        f"throughput per s: {_number(throughput.requests_per_s)} requests, "
        f"{_number(throughput.input_tokens_per_s)} input, "
        f"{_number(throughput.output_tokens_per_s)} output, "
        f"{_number(throughput.total_tokens_per_s)} tokens in all"
    )
    hits = summary.hits
    tiers = ", ".join(f"{name} {_share(rate)}" for name, rate in hits.by_tier.items())
    yield (
        f"hit rate {_share(hits.rate)} (unknown for {hits.unknown})"
        f"{f'; by tier: {tiers}' if tiers else ''}; ideal {_share(hits.ideal)}"
    )
    if reuse is not None:
        pool = "" if reuse.pool is None else f" of {reuse.pool} {reuse.unit}"
        yield (
            f"of the workload alone, in {reuse.unit}: without bounds {_share(reuse.infinite)}, "
            f"pooled LRU{pool} {_share(reuse.pooled_lru)}, {reuse.distinct} distinct"
        )
    if summary.goodput is not None:
        good = summary.goodput
        yield (
            f"goodput {_number(good.per_s)} requests per s: {good.met} of {good.requests} met "
            f"all targets, unknown for {good.unknown}"
        )
    for error, count in summary.errors.items():
        yield f"failed {count} times: {error}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"
