"""Which cases are made, and in which order."""

from collections.abc import Mapping
from math import ceil

from bench.verdicts import mixtures, singles
from bench.verdicts.cases import Case, Site
from bench.verdicts.singles import Maker
from bench.verdicts.texts import Texts

SINGLES: Mapping[Maker, int] = {
    singles.again: 12,
    singles.next_turn: 6,
    singles.first_time: 14,
    singles.clock_in_heading: 6,
    singles.clock_in_instructions: 6,
    singles.documents_order: 7,
    singles.documents_changed: 8,
    singles.history_edited: 8,
    singles.tools_changed: 4,
    singles.version: 5,
    singles.isolated: 14,
    singles.cleared: 14,
    singles.pool: 10,
    singles.rounding: 14,
    singles.rounding_after_overflow: 4,
    singles.concurrent: 6,
    singles.events_lost: 8,
    singles.events_lost_in_vain: 4,
    singles.events_off: 6,
    singles.no_cache_report: 6,
}
MIXED: Mapping[Maker, int] = {
    mixtures.evicted_changed: 10,
    mixtures.rounding_changed: 10,
    mixtures.unknown_changed: 5,
    mixtures.evicted_isolated: 10,
    mixtures.rounding_isolated: 10,
    mixtures.unknown_isolated: 5,
    mixtures.changed_isolated: 10,
    mixtures.rounding_changed_isolated: 8,
}


def make_plan(texts: Texts, sites: frozenset[Site], *, share: float = 1.0) -> list[Case]:
    """The cases for the gateways that are there, in random order; a `share` of each kind."""
    kinds = {**SINGLES, **MIXED}.items()
    makers = [maker for maker, times in kinds for _ in range(ceil(times * share))]
    cases = [maker(texts) for maker in makers]
    texts.random.shuffle(cases)
    return [case for case in cases if case.site in sites]
