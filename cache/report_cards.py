"""The few figures at the top of the page. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from cache.report_numbers import UNKNOWN, count, duration, long_duration, percent, plural, share
from cache.report_parts import Label, Sentence
from cache.report_savings import money
from cache.report_values import Group, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One figure with a line about it; `gauge` is a share 0 … 1 and where its ideal lies."""

    name: str
    value: str
    detail: Sentence
    gauge: tuple[float, float | None] | None = None


def cards(report: Report) -> Iterator[Card]:
    """Re-use, loss, time to first token, savings, requests, and what isn't known."""
    total = report.total
    if total is None:
        return
    yield _reused(total)
    yield _lost(total)
    yield _ttft(report)
    yield _saved(report)
    summary = total.summary
    failed = f"{count(summary.errors)} failed, {count(summary.aborted)} aborted"
    yield Card(name="Requests", value=count(summary.requests), detail=(failed,))
    unknown = summary.requests - summary.hit.requests
    yield Card(
        name="Unknown",
        value=share(unknown, summary.requests),
        detail=(f"{plural(unknown, 'request')} whose re-use isn't known",),
    )


def _reused(total: Group) -> Card:
    hit, ideal = total.summary.hit, total.ideal_rate
    ideal_words = UNKNOWN if ideal is None else percent(ideal)
    return Card(
        name="Re-used",
        value=percent(hit.rate, of_some=total.summary.requests),
        detail=(f"of {plural(hit.prompt_tokens, 'prompt token')}; ideal {ideal_words}",),
        gauge=None if hit.rate is None else (hit.rate, ideal),
    )


def _lost(total: Group) -> Card:
    fall = total.waterfall
    if fall is None:
        return Card(name="Lost", value=UNKNOWN, detail=("the ideal isn't known",))
    worst: Sentence = ("nothing that could have been re-used",)
    if fall.worst is not None:
        worst = (f"{plural(fall.lost_tokens, 'token')}, most to ", Label(fall.worst))
    return Card(name="Lost", value=share(fall.lost_tokens, fall.prompt_tokens), detail=worst)


def _ttft(report: Report) -> Card:
    split = report.ttft
    name = "First token, median"
    if split is None or not (split.with_hits.requests or split.without.requests):
        return Card(name=name, value=UNKNOWN, detail=("no request had one",))
    if not split.with_hits.requests:
        return Card(name=name, value=duration(split.without.p50_s), detail=("no request had hits",))
    without = duration(split.without.p50_s) if split.without.requests else "n/a"
    return Card(
        name=name,
        value=duration(split.with_hits.p50_s),
        detail=(f"with hits; {without} without",),
    )


def _saved(report: Report) -> Card:
    savings = report.savings
    if savings is None:
        return Card(name="GPU time saved", value=UNKNOWN, detail=("prefill speed not measured",))
    words = f"at {savings.tokens_per_s:,.0f} tokens/s"
    if savings.saved_money is not None:
        words += f"; worth {money(savings.saved_money)}"
    return Card(name="GPU time saved", value=long_duration(savings.saved_gpu_s), detail=(words,))
