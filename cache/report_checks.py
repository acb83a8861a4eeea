"""What speaks for and against a report: the engine's own count, and rows that are missing. Pure."""

from collections.abc import Iterator

from cache.crosscheck import CrossCheck, CrossCheckLine, SourceTokens
from cache.ledger import LedgerStatus
from cache.report_numbers import UNKNOWN, count, moment, plural, share
from cache.report_parts import Align, Column, Inline, Label, Section, Sentence, Table
from cache.report_values import GivenAgain, Report
from cache.summary import Foretold


def check_sections(report: Report) -> Iterator[Section]:
    """The cross-check with the engine's counters, and what the ledger lost or holds back."""
    if report.cross_check is None:
        lead: Sentence = ("Not possible: the engine's counters couldn't be read.",)
        yield Section(id="check", title=_CHECK, short=_SHORT, lead=[lead])
    else:
        yield _check_section(report.cross_check)
    if report.total is not None and report.total.summary.foretold.requests:
        yield _foretold_section(report.total.summary.foretold)
    if report.given_again is not None and report.given_again.answers:
        yield _given_again_section(report.given_again)
    notes = [] if report.ledger is None else _ledger_notes(report.ledger)
    if notes:
        yield Section(id="ledger", title="Missing from this report", lead=notes)


def _foretold_section(foretold: Foretold) -> Section:
    """How well the gateway's own model of the cache agrees with what the engine then did."""
    difference = foretold.predicted_tokens - foretold.cached_tokens
    words = (
        f"The gateway foretold {count(foretold.predicted_tokens)} re-used tokens, the engine "
        f"reported {count(foretold.cached_tokens)} ({difference:+,}); "
        f"{share(foretold.exact, foretold.requests)} of {plural(foretold.requests, 'request')} "
        "were foretold to the token."
    )
    return Section(
        id="foretold", title="Foretold and reported re-use", short="Foretold", lead=[(words,)]
    )


def _given_again_section(given: GivenAgain) -> Section:
    """What the response cache answered: nothing of it is re-use of a prefix."""
    words = (
        f"{plural(given.answers, 'request')} got an answer that was kept, with "
        f"{plural(given.prompt_tokens, 'prompt token')} and "
        f"{plural(given.completion_tokens, 'token')} of output. No engine worked on "
        f"{'it' if given.answers == 1 else 'them'}: "
        f"{'it is' if given.answers == 1 else 'they are'} in no other figure here."
    )
    return Section(
        id="response-cache", title="Response cache", short="Response cache", lead=[(words,)]
    )


def _check_section(check: CrossCheck) -> Section:
    window = f"{moment(check.since)} to {moment(check.until)}, cached tokens."
    if not check.lines:
        why = "Neither side counted a request." if check.is_whole else _NOT_WHOLE
        return Section(id="check", title=_CHECK, short=_SHORT, lead=[(window,), (why,)])
    return Section(
        id="check",
        title=_CHECK,
        short=_SHORT,
        lead=[(window,)],
        tables=[_check_table(check)],
        notes=_check_notes(check),
    )


def _check_table(check: CrossCheck) -> Table:
    rows: list[tuple[Inline, ...]] = [
        ("(all)" if line.template is None else Label(line.template), *_figures(line))
        for line in check.lines
    ]
    has_total = len(rows) > 1
    if has_total:
        rows.append(("total", *_figures(_total(check))))
    return Table(
        caption="Cached tokens, counted twice",
        columns=(
            Column("template", Align.LEFT),
            Column("responses"),
            Column("engine"),
            Column("difference"),
            Column("in %"),
        ),
        rows=rows,
        has_total=has_total,
    )


def _figures(line: CrossCheckLine) -> tuple[str, str, str, str]:
    ratio = line.difference_ratio
    if line.is_unknown:
        return UNKNOWN, count(line.engine.total), "n/a", "n/a"
    return (
        f"{count(line.responses.total)}{'+?' if line.unknown_requests else ''}",
        count(line.engine.total),
        f"{line.difference_tokens:+,}" if line.difference_tokens else "0",
        "n/a" if ratio is None else f"{100 * ratio:.2f} %",
    )


def _total(check: CrossCheck) -> CrossCheckLine:
    return CrossCheckLine(
        template=None,
        responses=SourceTokens(unsplit=sum(line.responses.total for line in check.lines)),
        engine=SourceTokens(unsplit=sum(line.engine.total for line in check.lines)),
        known_requests=sum(line.known_requests for line in check.lines),
        unknown_requests=sum(line.unknown_requests for line in check.lines),
    )


def _check_notes(check: CrossCheck) -> list[Sentence]:
    notes: list[Sentence] = []
    if check.unknown_requests:
        notes.append(
            (
                f"{plural(check.unknown_requests, 'request')} with unknown figures "
                f"{'is' if check.unknown_requests == 1 else 'are'} in the engine's count only, if "
                "at all.",
            )
        )
    if check.resets:
        notes.append(
            (
                f"The engine started anew {plural(check.resets, 'time')}: its count is a lower "
                "bound.",
            )
        )
    if check.unlabelled_tokens:
        notes.append(
            (
                f"The engine also counted {count(check.unlabelled_tokens)} cached tokens of "
                "requests without a template label: the gateway's own warmings and checks, "
                "and other clients'.",
            )
        )
    return notes


def _ledger_notes(status: LedgerStatus) -> list[Sentence]:
    notes: list[Sentence] = []
    if status.dropped:
        notes.append((f"{count(status.dropped)} requests' rows were lost.",))
    if status.pending:
        notes.append((f"{plural(status.pending, 'row')} wait to be written.",))
    if status.degraded and status.last_error is not None:
        notes.append(("Ledger: ", Label(str(status.last_error), 1000), "."))
    return notes


_NOT_WHOLE = (
    "Not possible: the rows of the hour in which this begins are no longer all kept, so that what "
    "belongs to it can't be told."
)
_SHORT = "Cross-check"
_CHECK = "Cross-check with the engine's own count (sglang:cached_tokens_total)"
