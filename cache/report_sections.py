"""A report as sections in the order in which they are read; what isn't there is left out. Pure."""

from collections.abc import Iterator

from cache import report_advice as advice
from cache import report_tables as tables
from cache.alerts import BudgetStatus
from cache.report_checks import check_sections
from cache.report_flame import flame_section
from cache.report_numbers import moment, plural
from cache.report_parts import Label, Section, Sentence, Table
from cache.report_savings import savings_section
from cache.report_values import Breakdown, Group, OverTime, Report, TtftSplit


def sections(report: Report) -> list[Section]:
    """All sections of a report, its outcome first."""
    found = [Section(id="outcome", title="Outcome", lead=advice.outcome(report))]
    found += _alerts(report)
    if report.total is not None:
        found += _reuse(report, report.total)
    found += check_sections(report)
    return found


def period(report: Report) -> str:
    """The time that a report is about, in words."""
    if report.since is None and report.until is None:
        return f"everything up to {moment(report.made_at)}"
    start = "the first request" if report.since is None else moment(report.since)
    return f"{start} to {moment(report.until or report.made_at)}"


def _alerts(report: Report) -> Iterator[Section]:
    sentences = [advice.fall_sentence(fall) for fall in report.falls]
    unmet = [check for check in report.budgets if check.status is not BudgetStatus.MET]
    sentences += [advice.budget_sentence(check) for check in unmet[:_MOST_ALERTS]]
    if more := len(unmet) - len(unmet[:_MOST_ALERTS]):
        sentences.append((f"And {plural(more, 'more template')} not known to keep a budget.",))
    kept = len(report.budgets) - len(unmet)
    notes: list[Sentence] = [(f"{plural(kept, 'template')} within budget.",)] if kept else []
    if sentences or notes:
        yield Section(id="alerts", title="Alerts", lead=sentences, notes=notes)


def _reuse(report: Report, total: Group) -> Iterator[Section]:
    yield from _waterfall(total)
    yield _groups(report.groups, total)
    if report.over_time is not None:
        yield _over_time(report.over_time)
    if report.ttft is not None:
        yield _ttft(report.ttft, total)
    yield Section(
        id="tiers",
        title="Where re-used tokens came from",
        short="Tiers",
        tables=[tables.tier_table(report.groups, total, "Cached tokens by tier")],
        notes=[_TIER_NOTE],
        plot="tiers",
    )
    if report.flame is not None:
        yield flame_section(report.flame)
    yield from _breakdowns(report, total)
    yield savings_section(report.savings)


def _waterfall(total: Group) -> Iterator[Section]:
    if total.waterfall is None:
        return
    missing = advice.unknown_ideal(total)
    yield Section(
        id="waterfall",
        title="Where the prompt tokens went",
        short="Waterfall",
        tables=[tables.waterfall_table(total.waterfall)],
        notes=[
            (f"Over {plural(total.waterfall.requests, 'request')} with all figures known.",),
            *([missing] if missing else []),
        ],
        plot="waterfall",
    )


def _groups(found: Breakdown, total: Group) -> Section:
    unknown = advice.unknown_share(total)
    missing = [unknown, _SOME_NOTE] if unknown else []
    title = ", ".join(found.by) or "nothing: all requests"
    return Section(
        id="groups",
        title=f"Re-use by {title}",
        short=title.capitalize(),
        tables=[
            tables.reuse_table(found, total, "Re-use of prompt tokens"),
            *_losses(found, total, detail=False),
        ],
        notes=[_RATE_NOTE, _TTFT_NOTE, *missing],
        plot="groups",
    )


def _over_time(over: OverTime) -> Section:
    left = f"{plural(over.left_out, 'template')} with fewer prompt tokens not shown."
    return Section(
        id="time",
        title="Hit rate over time",
        short="Over time",
        tables=[
            *([tables.trend_table(over.templates)] if over.templates else []),
            tables.over_time_table(over),
        ],
        notes=[(left,)] if over.left_out else (),
        plot="time",
    )


def _ttft(split: TtftSplit, total: Group) -> Section:
    title = "Time to first token, with and without hits"
    if not total.summary.ttft.requests:
        return Section(id="ttft", title=title, short="First token", lead=[_NO_TTFT])
    lead = advice.ttft_sentence(split)
    return Section(
        id="ttft",
        title=title,
        short="First token",
        lead=[lead] if lead else (),
        tables=[tables.ttft_table(split)],
        notes=[_HITS_NOTE],
        plot="ttft",
    )


def _breakdowns(report: Report, total: Group) -> Iterator[Section]:
    """The fixed breakdowns, where they tell more than the total does."""
    for id_, title, found in (
        ("modes", "RAG and CAG", report.modes),
        ("tenants", "Re-use by tenant", report.tenants),
        ("collections", "Re-use by collection", report.collections),
        ("replicas", "Re-use by replica", report.replicas),
    ):
        named = any(group.summary.group[found.by[0]] is not None for group in found.groups)
        if found.by == report.groups.by or not named or (len(found.groups) < 2 and id_ != "modes"):
            continue
        yield Section(
            id=id_,
            title=title,
            short=title.removeprefix("Re-use by ").capitalize() if id_ != "modes" else title,
            tables=[tables.reuse_table(found, total, title), *_losses(found, total, detail=True)],
            plot=id_,
        )


def _losses(found: Breakdown, total: Group, *, detail: bool) -> Iterator[Table]:
    if total.waterfall is not None and total.waterfall.lost_tokens:
        yield tables.loss_table(found, total, "Lost tokens by verdict", detail=detail)


_MOST_ALERTS = 20
_NO_TTFT: Sentence = ("Not known of any request: only streamed answers tell it.",)
_RATE_NOTE: Sentence = (
    "Hit rate: cached / prompt tokens, summed over the requests for which both are known. Ideal: "
    "what earlier requests of the same salt had left, by the engine's rules, over prompt tokens.",
)
_TTFT_NOTE: Sentence = ("TTFT: time to first token, over the requests that had one.",)
_SOME_NOTE: Sentence = (
    "1,200+? is the sum of what is known, where some requests' figures aren't: at least so much.",
)
_TIER_NOTE: Sentence = ("storage = ram + ssd + redis, also where they aren't told apart.",)
_HITS_NOTE: Sentence = (
    "With hits: at least one prompt token was re-used. Requests with and without hits differ in "
    "more than that, such as in their length.",
)

DEFINITIONS: dict[str, Sentence] = {
    "prompt tokens": ("Tokens of the prompts that were sent, as the engine counted them.",),
    "re-used (cached)": (
        "Prompt tokens whose KV the engine had or loaded, and didn't compute again. The engine's "
        "own figure; a request for which it gave none is unknown, never 0.",
    ),
    "hit rate": ("Re-used tokens over prompt tokens, both summed over the requests.",),
    "ideal": (
        "The longest opening in whole pages that earlier requests of the same tenant had left "
        "anywhere, at most all but the last token. What a cache that never forgets would re-use.",
    ),
    "new": ("Tokens that nobody had computed before, and those that are always computed.",),
    **{
        f"lost: {verdict}": (f"{words[0].upper()}{words[1:]}.",)
        for verdict, words in tables.REASONS.items()
    },
    "GPU, RAM, SSD, Redis": (
        "Where re-used tokens came from: the engine's own memory, or a tier of LMCache below it.",
    ),
    "served": ("Tokens of a piece of a prompt, times the requests whose prompt holds it.",),
    "template": ("A name and version, such as ", Label("docqa@3"), "; each version counts alone."),
}
