"""A comparison as Markdown. Pure."""

from collections.abc import Iterator, Sequence
from math import exp, log

from bench.compare.comparison import ComparedRequests, ComparedRuns, Comparison, Verdict
from bench.compare.measures import Unit
from bench.compare.paired import Interval, Scale

UNKNOWN = "unknown"
_LARGEST = log(100)
LEGEND = (
    "Times and B less A are medians over requests, tokens means. The effect is of each request "
    'against itself: on times the geometric mean of the factors, "x 0.50" half of A, on throughput '
    "that of the rounds; on tokens and shares it is a difference. "
    '"A against A" is the largest effect between two rounds of one arm.'
)

# A column that ends in a colon has numbers.
REQUEST_COLUMNS: tuple[str, ...] = ("each request against itself", "verdict", "{0}:", "{1}:")
REQUEST_COLUMNS += ("B less A:", "effect:", "95 % over requests", "by round", "95 % over rounds")
REQUEST_COLUMNS += ("A against A:", "why not")
RUN_COLUMNS = ("whole runs", "verdict", "{0}", "{1}", "effect:", "95 % over rounds", "why not")


def comparison_page(comparison: Comparison, *, title: str | None = None) -> str:
    """The first line says whether it was simulated; then a sentence, then the tables."""
    return "\n".join(
        [
            f"# {title or f'{comparison.b} against {comparison.a}'}",
            "",
            engine_line(comparison.simulated),
            "",
            *tables(comparison),
            "",
        ]
    )


def engine_line(simulated: bool | None) -> str:
    """Real, simulated, or not known."""
    if simulated is None:
        return "Whether the engine was a real one isn't known."
    if simulated:
        return (
            "The engine was **simulated**: what is said of re-use holds, times are worth nothing."
        )
    return "The engine was a real one."


def tables(comparison: Comparison) -> Iterator[str]:
    """Both tables and what they mean."""
    a, b = comparison.a, comparison.b
    yield headline(comparison)
    yield ""
    yield from table_lines(
        [column.format(a, b) for column in REQUEST_COLUMNS],
        [request_row(each) for each in comparison.by_request],
    )
    yield ""
    yield from table_lines(
        [column.format(a, b) for column in RUN_COLUMNS],
        [run_row(each) for each in comparison.by_run],
    )
    yield ""
    yield (
        f"{comparison.requests} requests, {comparison.rounds[0]} and {comparison.rounds[1]} "
        f"rounds in turns. {LEGEND}"
    )
    if comparison.also:
        yield ""
        yield f"The arms also differ in: {'; '.join(comparison.also)}."


def headline(comparison: Comparison) -> str:
    """One sentence: what was shown of TTFT, and how large it is."""
    found = comparison.by_request[0]
    paired, verdict = found.paired, found.verdict
    if paired is None:
        return f"{found.name}: not told by both arms."
    sizes = (
        f"median {found.name} {value(paired.a, found.unit)} with {comparison.a}, "
        f"{value(paired.b, found.unit)} with {comparison.b}"
    )
    if not verdict.shown:
        return f"**{verdict.word.capitalize()}** in {found.name} ({verdict.why}): {sizes}."
    times = f", {_times(exp(paired.effect))}" if paired.scale == "ratio" else ""
    once = " One round each: repeat it before you believe it." if verdict.once else ""
    return f"**{comparison.b} is {verdict.word}**: {sizes}{times}.{once}"


def value(number: float | None, unit: Unit, *, signed: bool = False) -> str:
    """With its unit; unknown where there is none."""
    if number is None:
        return UNKNOWN
    sign = "+" if signed else ""
    match unit:
        case "s":
            return f"{number:{sign}.3f} s" if abs(number) >= 1 else f"{1000 * number:{sign}.1f} ms"
        case "tokens":
            return f"{number:{sign},.0f}"
        case "share":
            return f"{100 * number:{sign}.1f} %"
        case "per s":
            return f"{number:{sign},.2f}/s"


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table."""
    yield f"| {' | '.join(column.removesuffix(':') for column in columns)} |"
    yield "|" + "".join("--:|" if column.endswith(":") else "---|" for column in columns)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def request_row(found: ComparedRequests) -> list[str]:
    """Cells below `REQUEST_COLUMNS`."""
    paired, unit = found.paired, found.unit
    if paired is None:
        return [found.name, found.verdict.word, UNKNOWN, UNKNOWN, *[""] * 6, found.verdict.why]
    missing = f" ({paired.missing} not in both)" if paired.missing else ""
    return [
        f"{found.name}{missing}",
        _verdict(found.verdict),
        value(paired.a, unit),
        value(paired.b, unit),
        value(paired.difference, unit, signed=True),
        _effect(paired.effect, unit, paired.scale),
        _interval(paired.over_requests, unit, paired.scale),
        ", ".join(_effect(each, unit, paired.scale) for each in paired.by_round),
        _interval(paired.over_rounds, unit, paired.scale),
        _effect(paired.noise, unit, paired.scale),
        found.verdict.why,
    ]


def run_row(found: ComparedRuns) -> list[str]:
    """Cells below `RUN_COLUMNS`."""
    unit = found.unit
    ones, others = (", ".join(value(each, unit) for each in arm) for arm in (found.a, found.b))
    return [
        found.name,
        _verdict(found.verdict),
        ones,
        others,
        _effect(found.effect, unit, found.scale),
        _interval(found.over_rounds, unit, found.scale),
        found.verdict.why,
    ]


def _verdict(verdict: Verdict) -> str:
    if not verdict.shown:
        return verdict.word
    return f"**{verdict.word}**{' (one round)' if verdict.once else ''}"


def _effect(effect: float | None, unit: Unit, scale: Scale) -> str:
    if effect is None:
        return UNKNOWN
    if scale == "difference":
        return value(effect, unit, signed=True)
    if abs(effect) < _LARGEST:
        return f"x {exp(effect):.2f}"
    return "x > 100" if effect > 0 else "x < 0.01"


def _interval(interval: Interval | None, unit: Unit, scale: Scale) -> str:
    if interval is None:
        return UNKNOWN
    return f"{_effect(interval.low, unit, scale)} to {_effect(interval.high, unit, scale)}"


def _times(ratio: float) -> str:
    return f"{1 / ratio:.1f} times as fast" if ratio < 1 else f"{ratio:.2f} times as long"
