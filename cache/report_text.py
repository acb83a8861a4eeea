"""A report as aligned plain text for people. Pure.

Unknown is never printed as a number: it says "unknown", or "1,200+?" where only some of the
requests are known.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from cache.crosscheck import CrossCheck, CrossCheckLine, SourceTokens
from cache.ledger import LedgerStatus
from cache.report import Report
from cache.summary import Summary, TokenSum

TEXT_WIDTH = 100


def render_text(report: Report) -> str:
    """The report as plain text, at most 100 columns wide, ending with a newline.

    Labels are cut to keep to it, down to 4 characters; only many groups can still exceed it.
    """
    parts = [[f"Foreword report, {_period(report)}"]]
    if report.total is None:
        parts.append(["No request ended in this time."])
    else:
        parts += [_reuse_table(report), _tier_table(report), _notes(report.total)]
    if report.cross_check is not None:
        parts.append(_cross_check_text(report.cross_check))
    parts.append(_ledger_notes(report.ledger))
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _period(report: Report) -> str:
    if report.since is None and report.until is None:
        return f"everything up to {_moment(report.made_at)}"
    start = "the first request" if report.since is None else _moment(report.since)
    return f"{start} to {_moment(report.until or report.made_at)}"


def _reuse_table(report: Report) -> list[str]:
    headers = "requests", "failed", "aborted", "prompt", "cached", "hit rate", "TTFT p50", "p90"
    rows = [
        (
            _count(summary.requests),
            _count(summary.errors),
            _count(summary.aborted),
            _tokens(summary.prompt),
            _tokens(summary.cached),
            _percent(summary.hit.rate, of_some=summary.requests),
            _duration(summary.ttft.p50_s),
            _duration(summary.ttft.p90_s),
        )
        for summary in _with_total(report)
    ]
    return ["Re-use of prompt tokens", *_table(report.by, _labels(report), headers, rows)]


def _tier_table(report: Report) -> list[str]:
    headers = "gpu", "ram", "ssd", "redis", "storage"
    rows = [
        (
            _tokens(summary.by_tier.gpu),
            _tokens(summary.by_tier.ram),
            _tokens(summary.by_tier.ssd),
            _tokens(summary.by_tier.redis),
            _tokens(summary.by_tier.storage),
        )
        for summary in _with_total(report)
    ]
    return [
        "Cached tokens by tier (storage = ram + ssd + redis, also where they aren't told apart)",
        *_table(report.by, _labels(report), headers, rows),
    ]


def _notes(total: Summary) -> list[str]:
    unknown = total.requests - total.hit.requests
    notes = [
        "Hit rate: cached / prompt tokens, summed over the requests for which both are known.",
        "TTFT: nearest-rank percentiles over the requests that had a first token.",
    ]
    if unknown:
        notes.append(
            f"Unknown figures: {_count(unknown)} of {_count(total.requests)} requests "
            f"{_have(unknown)} no known cached or prompt tokens and {_are(unknown)} in no hit rate."
        )
    return _wrapped(notes)


def _cross_check_text(check: CrossCheck) -> list[str]:
    headers = "responses", "engine", "difference", "in %"
    rows = [_check_row(line) for line in check.lines]
    labels = [(line.template or "(all)",) for line in check.lines]
    if len(check.lines) > 1:
        rows.append(_check_row(_check_total(check)))
        labels.append(("total",))
    lines = ["Cross-check with the engine's own count (sglang:cached_tokens_total), cached tokens,"]
    lines.append(f"{_moment(check.since)} to {_moment(check.until)}")
    if rows:
        lines += _table(("template",), labels, headers, rows)
    else:
        lines.append("Neither side counted a request.")
    return [*lines, *_wrapped(_check_notes(check))]


def _check_row(line: CrossCheckLine) -> tuple[str, ...]:
    ratio = line.difference_ratio
    return (
        _count(line.responses.total),
        _count(line.engine.total),
        f"{line.difference_tokens:+,}" if line.difference_tokens else "0",
        "n/a" if ratio is None else f"{100 * ratio:.2f} %",
    )


def _check_total(check: CrossCheck) -> CrossCheckLine:
    return CrossCheckLine(
        template=None,
        responses=SourceTokens(unsplit=sum(line.responses.total for line in check.lines)),
        engine=SourceTokens(unsplit=sum(line.engine.total for line in check.lines)),
    )


def _check_notes(check: CrossCheck) -> list[str]:
    notes: list[str] = []
    if check.unknown_requests:
        notes.append(
            f"{_count(check.unknown_requests)} requests with unknown figures are in the engine's "
            "count only, if at all."
        )
    if check.resets:
        notes.append(
            f"The engine started anew {_count(check.resets)} times: its count is a lower bound."
        )
    if check.unlabelled_tokens:
        notes.append(
            f"The engine also counted {_count(check.unlabelled_tokens)} cached tokens of requests "
            "without a template label."
        )
    return notes


def _ledger_notes(status: LedgerStatus | None) -> list[str]:
    if status is None:
        return []
    notes: list[str] = []
    if status.dropped:
        notes.append(
            f"Missing from this report: {_count(status.dropped)} requests' rows were lost."
        )
    if status.pending:
        notes.append(f"Not yet in this report: {_count(status.pending)} rows wait to be written.")
    if status.degraded and status.last_error is not None:
        notes.append(f"Ledger: {status.last_error}.")
    return _wrapped(notes)


def _with_total(report: Report) -> list[Summary]:
    """The groups, and their total below them where there is more than one."""
    groups = list(report.summaries)
    return groups if len(groups) < 2 or report.total is None else [*groups, report.total]


def _labels(report: Report) -> list[tuple[str, ...]]:
    if not report.by:
        return [() for _ in _with_total(report)]
    labels = [
        tuple(
            "(none)" if summary.group[name] is None else summary.group[name] or ""
            for name in report.by
        )
        for summary in report.summaries
    ]
    if len(labels) > 1:
        labels.append(("total", *("" for _ in report.by[1:])))
    return labels


def _table(
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> list[str]:
    """Label columns left-aligned and cut to fit, figures right-aligned and never cut."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    room = TEXT_WIDTH - sum(widths) - 2 * len(widths)
    share = max(4, (room - 2 * len(names) + 2) // len(names)) if names else 0
    cut = [[_cut(label, share) for label in line] for line in [names, *labels]]
    label_widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    return [
        "  ".join(
            [label.ljust(width) for label, width in zip(line, label_widths, strict=True)]
            + [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        ).rstrip()
        for line, cells in zip(cut, [headers, *rows], strict=True)
    ]


def _cut(text: str, width: int) -> str:
    """One printable line of at most `width` characters; labels may come from a client."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return clean if len(clean) <= width else f"{clean[: width - 1]}…"


def _wrapped(notes: Iterable[str]) -> list[str]:
    return [line for note in notes for line in textwrap.wrap(note, TEXT_WIDTH)]


def _count(number: int) -> str:
    """Thousands grouped by commas; rounded from 10**8 on, so that columns stay narrow."""
    if abs(number) < 10**8:
        return f"{number:,}"
    return f"{number / 10**6:,.0f}M" if abs(number) < 10**12 else f"{number / 10**12:,.1f}T"


def _tokens(figure: TokenSum) -> str:
    if not figure.unknown_requests:
        return _count(figure.tokens)
    return f"{_count(figure.tokens)}+?" if figure.known_requests else "unknown"


def _percent(rate: float | None, *, of_some: int) -> str:
    """Rounded down, so that 100.0 % is said of all tokens only."""
    if rate is None:
        return "unknown" if of_some else "n/a"
    return f"{math.floor(1000 * rate) / 10:.1f} %"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
