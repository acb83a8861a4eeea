"""`auto` against fixed modes over one list of events.

What is summed are prefill seconds: the tokens that the engine computed for questions, and those of
warmings, at the engine's speed. Search, loads and what every request waits for are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from bench.rag_cag.client import Gateway
from bench.rag_cag.stacks import Stack
from bench.rag_cag.workload import Event, Site

RAG, CAG, AUTO, BEST = "rag", "cag", "auto", "best"
_TOO_LARGE = "too_large"

Modes = Mapping[str, str]
"""A collection's name → the mode that its questions ask for."""


class Run:
    """One way of answering, with collections of its own, named after it."""

    def __init__(self, stack: Stack, sites: Sequence[Site], *, name: str) -> None:
        self._stack = stack
        self._sites = {site.name: site for site in sites}
        self._name = name
        self._gateway = Gateway(stack.url)
        self._stores: dict[str, str] = {}
        self._files: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        """Remove the collections, and end the connections."""
        for store in self._stores.values():
            self._gateway.remove_collection(store)
        self._gateway.close()

    def fill(self) -> dict[str, bool]:
        """Make the collections; says of each whether it can be shown whole."""
        fits = {}
        for site in self._sites.values():
            documents = site.texts().all()
            store = self._gateway.add_collection(f"{site.name} ({self._name})", documents)
            self._stores[site.name] = store
            self._files |= {
                (site.name, name): file
                for name, file in zip(documents, self._gateway.files(store), strict=True)
            }
            fits[site.name] = self._gateway.corpus(store)["state"] != _TOO_LARGE
        return fits

    def records(self, happened: Sequence[Event], modes: Modes) -> Iterator[dict[str, Any]]:
        """One record for each question."""
        for number, event in enumerate(happened):
            match event.kind:
                case "other":
                    self._gateway.say(event.text)
                case "change":
                    self._change(event)
                case _:
                    yield {"event": number, **self._ask(event, modes[event.site])}

    def warmed_tokens(self) -> float:
        """Tokens that warmings computed since the gateway's start."""
        return _count(self._stack.url, "foreword_corpus_warm_computed_tokens")

    def engine_computed(self) -> float:
        """All tokens that the engine computed since its start, by its own count."""
        prompt = _count(self._stack.engine_url, "sglang:prompt_tokens_total")
        return prompt - _count(self._stack.engine_url, "sglang:cached_tokens_total")

    def _ask(self, event: Event, mode: str) -> dict[str, Any]:
        asked = self._gateway.ask(self._stores[event.site], event.text, mode=mode)
        return {
            "collection": event.site,
            "mode": asked.mode,
            "prompt_tokens": asked.prompt_tokens,
            "computed_tokens": asked.computed_tokens,
            "ttft_s": round(asked.ttft_s, 4),
            "predicted_s": asked.predicted_s and round(asked.predicted_s, 4),
        }

    def _change(self, event: Event) -> None:
        store = self._stores[event.site]
        self._gateway.remove_document(store, self._files.pop((event.site, event.replaces)))
        file = self._gateway.add_document(store, event.name, event.text)
        self._files[event.site, event.name] = file


def run(
    stack: Stack,
    sites: Sequence[Site],
    happened: Sequence[Event],
    *,
    name: str,
    modes: Callable[[Mapping[str, bool]], Modes],
) -> dict[str, Any]:
    """All events in one way; `modes` is told which collections fit.

    `engine_tokens` has what the engine computed for the others' requests too.
    """
    one = Run(stack, sites, name=name)
    try:
        asked_for = modes(one.fill())
        engine_before, warmed_before = one.engine_computed(), one.warmed_tokens()
        records = list(one.records(happened, asked_for))
        return {
            "asked_for": dict(asked_for),
            "warmed_tokens": one.warmed_tokens() - warmed_before,
            "engine_tokens": one.engine_computed() - engine_before,
            "records": records,
        }
    finally:
        one.close()


def always(mode: str) -> Callable[[Mapping[str, bool]], Modes]:
    """Every collection in one mode; those that can't be shown whole by retrieval."""

    def of(fits: Mapping[str, bool]) -> Modes:
        return {name: mode if fit or mode != CAG else RAG for name, fit in fits.items()}

    return of


def _count(url: str, name: str) -> float:
    text = httpx.get(f"{url}/metrics", timeout=30, trust_env=False).raise_for_status().text
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith((name + "{", name + " "))
    )
