"""A page's sections as plain values, from which both forms of it are made. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.compare.comparison import Comparison, compare_arms
from bench.compare.page import (
    LEGEND,
    REQUEST_COLUMNS,
    RUN_COLUMNS,
    UNKNOWN,
    engine_line,
    headline,
    request_row,
    run_row,
    value,
)
from bench.errors import IncomparableRunsError
from bench.metrics.intervals import Estimate
from bench.pages import numbers, plots
from bench.pages.found import Found, Pair
from bench.pages.replay_tables import replay_tables, replay_words
from bench.pages.replays import curves
from bench.pages.table import Table
from bench.run_folder import Run
from cache.plot_layout import Figure

_CAPACITY = "Hit rate over capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section: sentences, tables, a plot."""

    id: str
    title: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = field(default_factory=tuple)
    plot: Figure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All of it; `lead` says first whether engines were simulated."""

    title: str
    lead: Sequence[str]
    parts: Sequence[Part]


def page_of(title: str, found: Found, *, phase: str) -> Page:
    """What is to be said of everything that was found."""
    parts = [*_pairs(found.pairs)]
    if found.series:
        parts += _run_parts(found.series, phase)
    parts += _replay_parts(found)
    return Page(title=title, lead=list(_lead(found)), parts=parts)


def _lead(found: Found) -> Iterator[str]:
    runs = [run for group in found.series.values() for run in group]
    told = {run.facts.target.simulated for run in runs}
    if len(told) > 1:
        yield (
            "Some of these runs had a **simulated** engine and others not: their times can't be "
            "compared."
        )
    elif told:
        yield engine_line(told.pop())
    if found.replays:
        yield "Replays had no engine: they tell hit rates, no times."
    invalid = sum(not run.facts.valid for run in runs)
    if invalid:
        yield f"**{invalid} of {len(runs)} runs are invalid** and say nothing; see the table."
    loads = [
        (run.facts.load_average[0], run.facts.machine.get("cores"))
        for run in runs
        if run.facts.load_average is not None
    ]
    if loads:
        one_minute = [load for load, _ in loads]
        yield (
            f"Load average (one minute) at the runs' ends: {min(one_minute):.1f} to "
            f"{max(one_minute):.1f}{_cores(runs)}."
        )
    if any(isinstance(cores, int) and load > 2 * cores for load, cores in loads):
        yield (
            "**The machine was busy with other work**: times are longer and less steady than on a "
            "quiet one, for all arms alike."
        )


def _cores(runs: Sequence[Run]) -> str:
    found = sorted({str(c) for run in runs if (c := run.facts.machine.get("cores")) is not None})
    return f", on {' and '.join(found)} cores" if found else ""


def _pairs(pairs: Sequence[Pair]) -> Iterator[Part]:
    for number, pair in enumerate(pairs):
        told = pair.compared
        words = [told.question] if told.question else []
        tables: list[Table] = []
        try:
            comparison = compare_arms(pair.a, pair.b, phase=told.phase, varies=told.varies)
        except IncomparableRunsError as error:
            words.append(f"**Not compared**: {error}.")
        else:
            words += [headline(comparison), *outcome(comparison, told.expected), LEGEND]
            tables = comparison_tables(comparison)
            if comparison.also:
                words.append(f"The arms also differ in: {'; '.join(comparison.also)}.")
        if told.command:
            words.append(f"`{told.command}`")
        yield Part(id=f"compared-{number}", title=told.title, words=words, tables=tables)


def outcome(comparison: Comparison, expected: str) -> Iterator[str]:
    """What was expected, and whether it came out."""
    gains = ", ".join(_gains(comparison))
    if expected == "none" and gains:
        yield f"**This control must show no gain, and shows one in {gains}: the harness errs.**"
    elif expected == "none":
        yield "A control: no gain was to be shown, and none is."
    elif expected == "gain" and not gains:
        yield "**A gain was expected, and none is shown.**"


def has_failed(pair: Pair) -> bool:
    """Whether it can't be compared, or came out otherwise than expected."""
    told = pair.compared
    try:
        comparison = compare_arms(pair.a, pair.b, phase=told.phase, varies=told.varies)
    except IncomparableRunsError:
        return True
    gained = bool(_gains(comparison))
    return gained if told.expected == "none" else told.expected == "gain" and not gained


def _gains(comparison: Comparison) -> list[str]:
    """Measures in which B is better; of a simulated engine, only those of re-use."""
    words = ("more re-use",) if comparison.simulated else ("faster", "more re-use")
    return [each.name for each in comparison.by_request if each.verdict.word in words]


def comparison_tables(comparison: Comparison) -> list[Table]:
    """By request, and by run."""
    names = comparison.a, comparison.b
    return [
        Table(
            columns=[column.format(*names) for column in REQUEST_COLUMNS],
            rows=[request_row(each) for each in comparison.by_request],
        ),
        Table(
            columns=[column.format(*names) for column in RUN_COLUMNS],
            rows=[run_row(each) for each in comparison.by_run],
        ),
    ]


def _run_parts(series: Mapping[str, Sequence[Run]], phase: str) -> Iterator[Part]:
    summaries = {
        name: [numbers.named_run(f"{name} {run.folder.name}", run, phase) for run in runs]
        for name, runs in series.items()
    }
    yield Part(
        id="runs",
        title="Runs",
        words=[f"Requests of phase `{phase}`. {UNKNOWN.capitalize()} is not zero."],
        tables=[_runs_table(summaries)],
    )
    yield Part(
        id="curve",
        title="Throughput and latency",
        words=["A point for each run; filled is p50, open p99."],
        plot=plots.throughput_latency(summaries),
    )
    splits = {name: numbers.ttft_split(runs, phase) for name, runs in series.items()}
    yield Part(
        id="ttft",
        title="Time to the first token, hits and misses",
        words=[
            f"A hit is a request of whose prompt at least {numbers.HIT_SHARE:.0%} was re-used. Of "
            f"{sum(len(split.unknown) for split in splits.values()):,} requests that isn't known."
        ],
        tables=[_split_table(splits)],
        plot=plots.ttft_cdf(splits),
    )
    yield Part(
        id="time",
        title="Hit rate over time",
        words=["Dotted: what a cache without bounds would have re-used, where that is told."],
        plot=plots.rates_over_time(
            {name: numbers.over_time(runs, phase) for name, runs in series.items()}
        ),
    )
    losses = {name: numbers.loss(runs, phase) for name, runs in series.items()}
    yield Part(
        id="loss",
        title="Short of the ideal, by verdict",
        words=[
            "Why tokens that could have been re-used were not, where the gateway tells. It knows "
            "nothing of a cache that was emptied on purpose between two rounds: there the ideal "
            "is known of the first one only."
        ],
        tables=[_loss_table(losses)],
        plot=plots.losses(losses),
    )


def _replay_parts(found: Found) -> Iterator[Part]:
    for number, (name, rows) in enumerate(found.replays.items()):
        yield Part(
            id=f"capacity-{number}",
            title=f"{_CAPACITY}: {name}" if len(found.replays) > 1 else _CAPACITY,
            words=list(replay_words(rows)),
            tables=replay_tables(rows),
            plot=plots.rate_over_capacity(curves(rows)),
        )


def _runs_table(series: Mapping[str, Sequence[numbers.NamedRun]]) -> Table:
    columns = ["run", "n:", "TTFT p50 (95 %):", "p90:", "p99:", "E2E p50:", "requests:"]
    columns += ["output tokens:", "hit rate:", "ideal:", "failed:", "lag p99:", "valid"]
    return Table(columns=columns, rows=[_run_row(r) for group in series.values() for r in group])


def _run_row(found: numbers.NamedRun) -> list[str]:
    told, facts = found.summary, found.run.facts
    return [
        found.name,
        f"{told.requests:,}",
        _estimate(told.ttft.p50, with_interval=True),
        *(_estimate(each) for each in (told.ttft.p90, told.ttft.p99, told.e2e.p50)),
        value(told.throughput.requests_per_s, "per s"),
        value(told.throughput.output_tokens_per_s, "per s"),
        *(value(rate, "share") for rate in (told.hits.rate, told.hits.ideal)),
        f"{told.failed:,}",
        value(facts.lag_p99_s, "s"),
        "yes" if facts.valid else f"**no**: {', '.join(facts.reasons)}",
    ]


def _estimate(found: Estimate | None, *, with_interval: bool = False) -> str:
    if found is None:
        return UNKNOWN
    told = value(found.value, "s")
    if not with_interval or found.low is None or found.high is None:
        return told
    return f"{told} ({value(found.low, 's')} to {value(found.high, 's')})"


def _split_table(splits: Mapping[str, numbers.Split]) -> Table:
    rows = []
    for name, split in splits.items():
        kinds = (("hits", split.hits), ("misses", split.misses), ("unknown", split.unknown))
        rows += [
            [name, kind, f"{len(values):,}"]
            + [value(numbers.quantile(values, p), "s") for p in (50, 90, 99)]
            for kind, values in kinds
            if values
        ]
    return Table(columns=["series", "", "requests:", "p50:", "p90:", "p99:"], rows=rows)


def _loss_table(losses: Mapping[str, numbers.Loss]) -> Table:
    rows = []
    for name, loss in losses.items():
        known = [
            [name, verdict, f"{tokens:,}", value(tokens / loss.prompt_tokens, "share")]
            for verdict, tokens in loss.by_verdict.items()
        ]
        if not known and loss.prompt_tokens:
            known = [[name, "nothing short of the ideal", "0", value(0.0, "share")]]
        if loss.unknown_requests:
            told = f"ideal or re-use {UNKNOWN} of {loss.unknown_requests:,} requests"
            known.append([name, told, UNKNOWN, UNKNOWN])
        rows += known
    return Table(columns=["series", "verdict", "tokens:", "of prompt tokens:"], rows=rows)
