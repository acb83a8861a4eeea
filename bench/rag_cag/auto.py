"""`auto` against fixed modes over one list of events, each way before a stack of its own.

What is summed are prefill seconds: the tokens that the engine computed for questions and for
warmings, at the engine's speed. Search, loads and what every request waits for are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from bench.rag_cag.client import Gateway
from bench.rag_cag.stacks import Stack
from bench.rag_cag.workload import Event, Site

RAG, CAG, AUTO = "rag", "cag", "auto"
_TOO_LARGE = "too_large"

Modes = Mapping[str, str]
"""A collection's name → the mode that its questions ask for."""


class Run:
    """One way of answering, from an empty stack on.

    Args:
        tokens_per_s: the engine's prefill speed.
    """

    def __init__(self, stack: Stack, sites: Sequence[Site], *, tokens_per_s: float) -> None:
        self._stack = stack
        self._sites = {site.name: site for site in sites}
        self._gateway = Gateway(stack.url)
        self._tokens_per_s = tokens_per_s
        self._stores: dict[str, str] = {}
        self._files: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        """End its connections."""
        self._gateway.close()

    def fill(self) -> dict[str, bool]:
        """Make the collections; says of each whether it can be shown whole."""
        fits = {}
        for site in self._sites.values():
            documents = site.texts().all()
            store = self._gateway.add_collection(site.name, documents)
            self._stores[site.name] = store
            files = self._gateway.files(store)
            self._files |= {
                (site.name, name): file for name, file in zip(documents, files, strict=True)
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
        """Tokens that warmings computed, beside the questions."""
        return self._count(self._stack.url, "foreword_corpus_warm_computed_tokens")

    def engine_computed(self) -> float:
        """All tokens that the engine computed, by its own count."""
        prompt = self._count(self._stack.engine_url, "sglang:prompt_tokens_total")
        return prompt - self._count(self._stack.engine_url, "sglang:cached_tokens_total")

    def _ask(self, event: Event, mode: str) -> dict[str, Any]:
        asked = self._gateway.ask(self._stores[event.site], event.text, mode=mode)
        return {
            "collection": event.site,
            "asked_for": mode,
            "mode": asked.mode,
            "prompt_tokens": asked.prompt_tokens,
            "computed_tokens": asked.computed_tokens,
            "loaded_tokens": asked.loaded_tokens,
            "prefill_s": asked.computed_tokens / self._tokens_per_s,
            "ttft_s": asked.ttft_s,
            "predicted_s": asked.predicted_s,
            "reason": asked.reason,
        }

    def _change(self, event: Event) -> None:
        store = self._stores[event.site]
        self._gateway.remove_document(store, self._files.pop((event.site, event.replaces)))
        file = self._gateway.add_document(store, event.name, event.text)
        self._files[event.site, event.name] = file

    def _count(self, url: str, name: str) -> float:
        text = httpx.get(f"{url}/metrics", timeout=30, trust_env=False).raise_for_status().text
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith((name + "{", name + " "))
        )


def run(
    stack: Stack,
    sites: Sequence[Site],
    happened: Sequence[Event],
    *,
    modes: Callable[[Mapping[str, bool]], Modes],
    tokens_per_s: float,
    seen: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """All events before one stack; the sums. `modes` is told which collections fit."""
    one = Run(stack, sites, tokens_per_s=tokens_per_s)
    try:
        fits = one.fill()
        asked_for = modes(fits)
        begun = one.engine_computed()
        for record in one.records(happened, asked_for):
            seen(record)
        return {
            "modes": dict(asked_for),
            "fits": fits,
            "warmed_s": one.warmed_tokens() / tokens_per_s,
            "engine_s": (one.engine_computed() - begun) / tokens_per_s,
        }
    finally:
        one.close()


def always(mode: str) -> Callable[[Mapping[str, bool]], Modes]:
    """Every collection in one mode; those that can't be shown whole by retrieval."""

    def of(fits: Mapping[str, bool]) -> Modes:
        return {name: mode if fit or mode != CAG else RAG for name, fit in fits.items()}

    return of
