"""A request log to its diagnosis: read, group, link, replay, compare, repair, replay again."""

import gc
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cache.request_log.bodies import LogLineError, parse_line
from cache.request_log.causes import Cause, find_causes, head_text
from cache.request_log.conversations import Link, find_links, turns
from cache.request_log.diagnosis import (
    BadLine,
    CurvePoint,
    Diagnosis,
    GroupReport,
    HitRates,
    Reported,
    sums,
)
from cache.request_log.engine_causes import EngineFinder
from cache.request_log.groups import Group, find_groups
from cache.request_log.judge import Analysis, Judged, judge
from cache.request_log.loose import LooseTexts
from cache.request_log.measure import ByteMeasure, Measure, TokenMeasure
from cache.request_log.messages import cause_message
from cache.request_log.options import LogOptions
from cache.request_log.places import log_place
from cache.request_log.repairs import GroupRepair
from cache.request_log.replay import Replay, replay
from cache.request_log.table import RequestTable
from prompts.lint.cost import prefix_break
from prompts.lint.findings import Confidence, Finding, PrefixBreak, Severity
from prompts.lint.options import LintOptions
from prompts.lint.registry import rule

_BAD_EXAMPLES = 10
_LABEL_CHARACTERS = 60
_CURVE_POINTS = 8
_TOOL_PROBES = 8
_NEW_OBJECTS = 100_000


def diagnose(lines: Iterable[bytes], options: LogOptions) -> Diagnosis:
    """What a log's requests could share, what they do share, and why not more."""
    with _collecting_seldom():
        return _diagnosed(lines, options)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Millions of small values without a cycle: looking for cycles takes a sixth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _diagnosed(lines: Iterable[bytes], options: LogOptions) -> Diagnosis:
    table, bad, examples = _read(lines)
    loose = LooseTexts(table.store)
    links = find_links(table, loose)
    measure = _measure(table, options)
    analysis = Analysis(
        table=table,
        loose=loose,
        links=links,
        answers=_answers(table, links),
        measure=measure,
        page_size=options.page_size,
    )
    sent = _replayed(analysis, {})
    groups = find_groups(table, loose)
    judged = [judge(analysis, group, find_causes(table, loose, group, links)) for group in groups]
    repairs = _repairs(analysis, groups, judged)
    repaired = _replayed(analysis, repairs) if repairs else sent
    writer = _FindingWriter(analysis, options, repairs)
    reports = [
        _group_report(analysis, group, sent, repaired, writer.findings(found))
        for group, found in zip(groups, judged, strict=True)
    ]
    engine = EngineFinder(analysis=analysis, sent=sent, options=options)
    findings = [finding for report in reports for finding in report.findings]
    findings += engine.findings(groups, repaired)
    return Diagnosis(
        path=options.path,
        exact=measure.exact,
        page_size=options.page_size,
        requests=len(table),
        bad_lines=bad,
        bad_examples=tuple(examples),
        refused_by_chat_template=measure.refused if isinstance(measure, TokenMeasure) else 0,
        tools_not_shown=_tools_not_shown(table, measure),
        rates=_rates(sent, repaired, range(len(table))),
        reported=_reported(table),
        groups=tuple(reports),
        curve=_curve(sent),
        findings=tuple(findings),
    )


def _read(lines: Iterable[bytes]) -> tuple[RequestTable, int, list[BadLine]]:
    table = RequestTable()
    bad, examples, at = 0, list[BadLine](), 0
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(BOM_UTF8) if number == 1 else line
        start = at + len(line) - len(text)
        stop = start + len(text.rstrip(b"\r\n"))
        if stop > start and not text.isspace():
            try:
                table.add(parse_line(text), line=number, start=start, stop=stop)
            except LogLineError as error:
                bad += 1
                if len(examples) < _BAD_EXAMPLES:
                    examples.append(BadLine(line=number, reason=str(error)))
        at += len(line)
    return table, bad, examples


def _measure(table: RequestTable, options: LogOptions) -> Measure:
    if options.tokenizer is None:
        return ByteMeasure(table.store, page_size=options.page_size)
    return TokenMeasure(table.store, options.tokenizer, page_size=options.page_size)


def _tools_not_shown(table: RequestTable, measure: Measure) -> int:
    """Requests with tools, where the chat template shows none of them."""
    if not isinstance(measure, TokenMeasure):
        return 0
    prompts = [prompt for request in table if (prompt := table.prompt(request)).tools]
    shown = any(measure.shows_tools(prompt) for prompt in prompts[:_TOOL_PROBES])
    return 0 if shown else len(prompts)


def _answers(table: RequestTable, links: Sequence[Link | None]) -> list[int | None]:
    """Each request's answer: from the log's response, or from the turn that continues it."""
    answers = [table.output(request) for request in table]
    for request, link in enumerate(links):
        if link is None or not link.exact or answers[link.earlier] is not None:
            continue
        at = len(turns(table, link.earlier))
        own = turns(table, request)
        if at < len(own) and table.store.roles[own[at]] == "assistant":
            answers[link.earlier] = own[at]
    return answers


def _replayed(analysis: Analysis, repairs: dict[int, GroupRepair]) -> Replay:
    """All requests in their order; `repairs` by request."""
    table = analysis.table
    steps = (analysis.step(request, repairs.get(request)) for request in table)
    return replay(steps, num_requests=len(table), page_size=analysis.page_size)


def _repairs(
    analysis: Analysis, groups: Sequence[Group], judged: Sequence[Sequence[Judged]]
) -> dict[int, GroupRepair]:
    repairs: dict[int, GroupRepair] = {}
    for group, found in zip(groups, judged, strict=True):
        if found:
            repair = analysis.repair(group, [one.cause for one in found])
            repairs.update(dict.fromkeys(group.requests, repair))
    return repairs


def _group_report(
    analysis: Analysis,
    group: Group,
    sent: Replay,
    repaired: Replay,
    findings: tuple[Finding, ...],
) -> GroupReport:
    return GroupReport(
        label=_label(analysis.table, group),
        requests=len(group.requests),
        conversations=sum(1 for request in group.requests if analysis.links[request] is None),
        first_line=analysis.table.lines[group.requests[0]],
        diverges_at=_diverges_at(analysis, group),
        rates=_rates(sent, repaired, group.requests),
        findings=findings,
    )


def _label(table: RequestTable, group: Group) -> str:
    first = group.requests[0]
    text = head_text(table, first) or table.store.text(table.prompt(first).messages[0])
    words = " ".join(text.split())
    return words if len(words) <= _LABEL_CHARACTERS else f"{words[:_LABEL_CHARACTERS]}…"


def _diverges_at(analysis: Analysis, group: Group) -> int | None:
    """The first token in which two conversations of the group differ."""
    starts = [request for request in group.requests if analysis.links[request] is None][:2]
    if len(starts) < 2:
        return None
    one, other = (analysis.table.prompt(request) for request in starts)
    return analysis.measure.shared_tokens(one, other)


def _rates(sent: Replay, repaired: Replay, requests: Sequence[int]) -> HitRates:
    return HitRates(
        prompt_tokens=sums(sent.prompt, requests),
        cached_tokens=sums(sent.cached, requests),
        repaired_prompt_tokens=sums(repaired.prompt, requests),
        repaired_cached_tokens=sums(repaired.cached, requests),
    )


def _reported(table: RequestTable) -> Reported:
    pairs = [(table.prompt_tokens(request), table.cached_tokens(request)) for request in table]
    known = [(prompt, cached) for prompt, cached in pairs if prompt and cached is not None]
    return Reported(
        requests=len(known),
        prompt_tokens=sum(prompt for prompt, _ in known),
        cached_tokens=sum(cached for _, cached in known),
    )


def _curve(sent: Replay) -> tuple[CurvePoint, ...]:
    """Hit rates from half the pages a single prompt needs up to room for everything."""
    total = sum(sent.prompt)
    if not total:
        return ()
    pages = {sent.distinct_pages}
    for _ in range(_CURVE_POINTS - 1):
        pages.add(max(1, min(pages) // 2))
    return tuple(
        CurvePoint(
            capacity_tokens=capacity * sent.page_size,
            hit_rate=sent.curve.hit_pages(capacity) * sent.page_size / total,
        )
        for capacity in sorted(pages)
    )


class _FindingWriter:
    """Judged causes to findings with a place and a cost."""

    def __init__(
        self, analysis: Analysis, options: LogOptions, repairs: dict[int, GroupRepair]
    ) -> None:
        self._analysis = analysis
        self._options = options
        self._repairs = repairs
        self._lint = LintOptions(page_size=options.page_size, chunk_size=options.chunk_size)

    def findings(self, judged: Sequence[Judged]) -> tuple[Finding, ...]:
        """One finding for each cause, at the later of the two requests that show it."""
        return tuple(self._finding(one) for one in judged)

    def _finding(self, judged: Judged) -> Finding:
        cause = judged.cause
        lines = self._analysis.table.lines
        return rule(cause.code).finding(
            message=cause_message(
                judged,
                exact=self._analysis.measure.exact,
                lines=(lines[cause.earlier], lines[cause.later]),
            ),
            place=log_place(self._analysis.table, self._options, cause.later),
            # Whether dropped reasoning is a fault is for the model's chat template to say.
            severity=Severity.NOTE if cause.code == "FW604" else None,
            confidence=Confidence.CONFIRMED if cause.sure else Confidence.SUSPECTED,
            cost=self._cost(cause),
        )

    def _cost(self, cause: Cause) -> PrefixBreak | None:
        """Where the two requests part, as sent and repaired."""
        if cause.earlier == cause.later:
            return None
        table, measure = self._analysis.table, self._analysis.measure
        parted = measure.shared_tokens(table.prompt(cause.earlier), table.prompt(cause.later))
        repair = self._repairs[cause.later]
        shared = measure.shared_tokens(repair.prompt(cause.earlier), repair.prompt(cause.later))
        if shared <= parted:
            return None
        cost = prefix_break(parted, shared, self._lint)
        return replace(cost, segment=cause.part, estimated=not measure.exact)
