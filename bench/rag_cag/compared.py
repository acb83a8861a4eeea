"""All ways of answering one list of events, each before an empty stack."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from bench.rag_cag.auto import AUTO, BEST, CAG, RAG, Modes, always, run
from bench.rag_cag.score import best_in_hindsight, computed_by_collection
from bench.rag_cag.stacks import Stack
from bench.rag_cag.workload import Event, Site

Anew = Callable[[], AbstractContextManager[Stack]]
"""Gives a stack that holds nothing."""


def ways(
    anew: Anew, sites: Sequence[Site], happened: Sequence[Event], say: Callable[[str], None]
) -> dict[str, Any]:
    """`auto`, always RAG, always CAG, and the best of both for each collection.

    `auto` comes first, so that what a gateway learns from the fixed ways is of no help to it.
    """
    found: dict[str, Any] = {}
    for name in (AUTO, RAG, CAG, BEST):
        modes = _best_of(found) if name == BEST else always(name)
        began = time.monotonic()
        with anew() as stack:
            found[name] = run(stack, sites, happened, name=name, modes=modes)
        asked = sum(computed_by_collection(found[name]["records"]).values())
        say(
            f"{name}: {asked:,.0f} tokens computed for questions, "
            f"{found[name]['warmed_tokens']:,.0f} for warmings; {time.monotonic() - began:.0f} s"
        )
    return {"sites": [site.name for site in sites], "ways": found}


def _best_of(found: Mapping[str, Mapping[str, Any]]) -> Callable[[Mapping[str, bool]], Modes]:
    """Each collection in the mode that it cost least in."""
    spent = {mode: computed_by_collection(found[mode]["records"]) for mode in (RAG, CAG)}
    best = best_in_hindsight(spent)
    return lambda _fits: best.modes
