"""A diagnosis for people."""

from collections.abc import Iterator

from cache.request_log.diagnosis import Diagnosis, GroupReport, HitRates
from prompts.lint.findings import Confidence, Finding

_GROUPS_SHOWN = 20


def render_text(diagnosis: Diagnosis) -> str:
    """The whole diagnosis as lines of text, ending in a newline."""
    return "\n".join([*_lines(diagnosis), ""])


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _summary(diagnosis)
    yield ""
    yield "template                                   requests    ideal    after  parts at token"
    for group in diagnosis.groups[:_GROUPS_SHOWN]:
        yield _group_line(group, exact=diagnosis.exact)
    hidden = len(diagnosis.groups) - _GROUPS_SHOWN
    if hidden > 0:
        yield f"… and {hidden:,} more; --format json has all"
    yield ""
    yield "room for tokens     hit rate"
    for point in diagnosis.curve:
        tokens = _tokens(point.capacity_tokens, exact=diagnosis.exact)
        yield f"{tokens:>15}     {point.hit_rate:7.1%}"
    yield ""
    if not diagnosis.findings:
        yield "No findings."
    for finding in diagnosis.findings:
        yield _finding_line(finding)


def _summary(diagnosis: Diagnosis) -> Iterator[str]:
    rates = diagnosis.rates
    yield (
        f"{diagnosis.path}: {_counted(diagnosis.requests, 'request')}, "
        f"{_tokens(rates.prompt_tokens, exact=diagnosis.exact)} tokens, "
        f"{_counted(len(diagnosis.groups), 'template')}"
    )
    if not diagnosis.exact:
        yield "Tokens are estimated (≈), 4 bytes each; give --tokenizer FOLDER for the model's own."
    if diagnosis.refused_by_chat_template:
        yield f"{diagnosis.refused_by_chat_template:,} of them were refused by the chat template: ≈"
    if diagnosis.tools_not_shown:
        carry = "request carries" if diagnosis.tools_not_shown == 1 else "requests carry"
        yield (
            f"The chat template shows no tools: {diagnosis.tools_not_shown:,} {carry} some, "
            "counted without them."
        )
    if diagnosis.bad_lines:
        first = diagnosis.bad_examples[0]
        yield (
            f"left out, since they hold no request: {_counted(diagnosis.bad_lines, 'line')}, "
            f"the first is {first.line:,}: {first.reason}"
        )
    yield f"Hit rate with unbounded room: {_rates(rates)}"
    reported = diagnosis.reported
    if reported.hit_rate is not None:
        yield f"Reported by the engine: {reported.hit_rate:.1%} of {reported.requests:,} requests"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _rates(rates: HitRates) -> str:
    ideal, repaired = _percent(rates.ideal), _percent(rates.repaired)
    return f"{ideal} as sent, {repaired} with the findings fixed (replayed)"


def _group_line(group: GroupReport, *, exact: bool) -> str:
    label = group.label[:40]
    parts = "-" if group.diverges_at is None else _tokens(group.diverges_at, exact=exact)
    ideal, repaired = _percent(group.rates.ideal), _percent(group.rates.repaired)
    return f"{label:<40} {group.requests:>10,} {ideal:>8} {repaired:>8} {parts:>15}"


def _finding_line(finding: Finding) -> str:
    place = f"{finding.place.path}:{finding.place.line}"
    doubt = "" if finding.confidence is Confidence.CONFIRMED else " (suspected)"
    return (
        f"{place}: {finding.code} {finding.name} {finding.severity.value}{doubt}: {finding.message}"
    )


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1%}"


def _tokens(count: int, *, exact: bool) -> str:
    return f"{count:,}" if exact else f"≈{count:,}"
