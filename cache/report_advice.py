"""What a report says in sentences: the outcome, alerts, and what to do about a loss. Pure."""

from collections.abc import Iterator
from datetime import timedelta

from cache.alerts import BudgetCheck, BudgetStatus, VersionFell
from cache.report_numbers import count, duration, moment, percent, plural, points, share
from cache.report_parts import Label, Sentence
from cache.report_tables import REASONS
from cache.report_values import Group, Report, TtftSplit, Waterfall

ADVICE: dict[str, Sentence] = {
    "changed": (
        Label("foreword explain ID"),
        " names the segment where a request's prompt parts, ",
        Label("foreword lint"),
        " finds what changes it.",
    ),
    "isolated": (
        "That is wanted: tenants, collections and isolated conversations share nothing with each "
        "other.",
    ),
    "evicted": (
        "Give the KV pool or a tier more room; ",
        Label("foreword plan"),
        " shows how many tokens each can hold.",
    ),
    "moved": ("Prompts went to replicas that hadn't their prefix: look at routing and load.",),
    "rounding": ("Smaller pages or chunks, or longer prefixes, lose less to rounding.",),
    "engine": ("Warm a prefix with one request before many ask for it at once.",),
    "unknown": (
        "The evidence is missing: ",
        Label("/readyz"),
        " says whether KV events or the cache report are off.",
    ),
}


def outcome(report: Report) -> tuple[Sentence, ...]:
    """What was re-used, what could have been, and what cost most, in two or three sentences."""
    total = report.total
    if total is None:
        return (("No request ended in this time.",),)
    sentences = [_reused(total)]
    if total.waterfall is not None and total.waterfall.worst is not None:
        sentences += _worst(total.waterfall, total.waterfall.worst)
    return (*sentences, *_window(report))


def unknown_share(total: Group) -> Sentence | None:
    """How many requests are in no hit rate, since their figures aren't known."""
    requests = total.summary.requests
    unknown = requests - total.summary.hit.requests
    if not unknown:
        return None
    return (
        f"Unknown figures: {count(unknown)} of {plural(requests, 'request')} "
        f"({share(unknown, requests)}) {_verb(unknown, 'has', 'have')} no known cached or prompt "
        f"tokens and {_verb(unknown, 'is', 'are')} in no hit rate.",
    )


def unknown_ideal(total: Group) -> Sentence | None:
    """How many requests are in no waterfall, beyond those that are in no hit rate."""
    accounted = 0 if total.waterfall is None else total.waterfall.requests
    missing = total.summary.hit.requests - accounted
    if missing <= 0:
        return None
    return (
        f"Of {plural(missing, 'request')} it is known what was re-used, but not what could have "
        f"been: {_verb(missing, 'it is', 'they are')} in no ideal and in no loss.",
    )


def fall_sentence(fall: VersionFell) -> Sentence:
    """A version that re-uses less than the one before it, and where to look."""
    where = {
        True: "The ideal fell too: the prompts share less than before.",
        False: "The ideal did not fall: the prompts share as much as before, the cache kept less.",
        None: "Whether the prompts or the cache are at fault can't be told: the ideal isn't known.",
    }[fall.ideal_fell_too]
    return (
        Label(fall.now.template),
        f" re-uses {percent(fall.now.hit.rate)} of its prompt tokens, ",
        Label(fall.before.template),
        f" re-used {percent(fall.before.hit.rate)}: {points(fall.fell_by)} less "
        f"({count(fall.now.hit.requests)} and {plural(fall.before.hit.requests, 'request')}). "
        f"{where}",
    )


def budget_sentence(check: BudgetCheck) -> Sentence:
    """A template that isn't known to keep its budget."""
    budget = percent(check.budget)
    match check.status:
        case BudgetStatus.UNDER:
            words = f" is under its budget: hit rate {percent(check.rate)}, wanted {budget}"
            words += f" ({plural(check.requests, 'request')})."
        case BudgetStatus.UNKNOWN:
            words = f" has a budget of {budget}, but none of its figures are known"
            words += f" ({plural(check.requests, 'request')})."
        case BudgetStatus.NO_REQUESTS:
            words = f" has a budget of {budget}, but no request used it in this time."
        case BudgetStatus.MET:
            words = f" keeps its budget: hit rate {percent(check.rate)}, wanted {budget}."
    return (Label(check.template), words)


def ttft_sentence(split: TtftSplit) -> Sentence | None:
    """How much sooner a request with hits began to answer, by the medians."""
    hit, miss = split.with_hits.p50_s, split.without.p50_s
    if hit is None or miss is None:
        return None
    times = f" ({miss / hit:.1f} times)" if 0 < hit < miss else ""
    return (
        f"Half of the requests with hits had their first token within {duration(hit)}, "
        f"of those without within {duration(miss)}{times}.",
    )


def _window(report: Report) -> Iterator[Sentence]:
    """How the time with figures differs from the time that was asked for."""
    if (report.since, report.until) != (report.asked_since, report.asked_until):
        yield (
            "At the edges of the time that was asked for, single requests are no longer kept: "
            "whole hours or days are counted there.",
        )
    first, over = report.first_at, report.over_time
    if first is None or over is None:
        return
    if report.since is None or first - report.since > over.step:
        minutes = over.step // timedelta(minutes=1)
        step = plural(minutes, "minute") if minutes < 60 else plural(minutes // 60, "hour")
        yield (f"The first requests came within {step} after {moment(first)}.",)


def _reused(total: Group) -> Sentence:
    hit, ideal = total.summary.hit, total.ideal_rate
    if hit.rate is None:
        return ("How much of the prompts was re-used isn't known for any request.",)
    reused = f"{percent(hit.rate)} of {plural(hit.prompt_tokens, 'prompt token')} were re-used"
    if ideal is None:
        return (f"{reused}; how many could have been isn't known.",)
    return (f"{reused}; {percent(ideal)} could have been.",)


def _worst(fall: Waterfall, verdict: str) -> list[Sentence]:
    lost = fall.lost[verdict]
    return [
        (
            "Most was lost to ",
            Label(verdict),
            f": {share(lost, fall.prompt_tokens)} of the prompt tokens; {REASONS[verdict]}.",
        ),
        ADVICE[verdict],
    ]


def _verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many
