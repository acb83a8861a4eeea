"""The figures that are drawn, out of runs' lines. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.compare.arms import of_phase
from bench.metrics import Summary, hit_rates, summarise
from bench.run_folder import RequestLine, Run

HIT_SHARE = 0.5
"""A prompt of which at least so much was re-used counts as a hit, the others as misses."""

_BINS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """One run and all figures of it."""

    name: str
    run: Run
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Sorted times to first token, by how much was re-used; `unknown`: that wasn't told."""

    hits: Sequence[float]
    misses: Sequence[float]
    unknown: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """A stretch of time; rates are None where no request in it tells them."""

    at_s: float
    requests: int
    hit_rate: float | None
    ideal_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Tokens short of the ideal by verdict, and the requests of which that isn't known."""

    by_verdict: dict[str, int]
    prompt_tokens: int
    unknown_requests: int


def named_run(name: str, run: Run, phase: str) -> NamedRun:
    """With the figures of one phase's requests."""
    return NamedRun(name=name, run=run, summary=summarise(of_phase(run, phase), phase=phase))


def quantile(values: Sequence[float], percent: float) -> float | None:
    """Of known values; None without any."""
    return float(np.percentile(values, percent)) if values else None


def ttft_split(runs: Sequence[Run], phase: str) -> Split:
    """All answered requests of some runs."""
    found: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for line in _answered(runs, phase):
        if line.ttft_s is not None:
            found[_is_hit(line)].append(line.ttft_s)
    return Split(hits=sorted(found[True]), misses=sorted(found[False]), unknown=sorted(found[None]))


def over_time(runs: Sequence[Run], phase: str) -> list[Bin]:
    """Hit rates by when requests were sent; rounds of one thing lie over each other."""
    sent = [(line.sent_s, line) for line in _answered(runs, phase) if line.sent_s is not None]
    if not sent:
        return []
    start = min(at for at, _ in sent)
    width = max((max(at for at, _ in sent) - start) / _BINS, 1e-9)
    bins: list[list[RequestLine]] = [[] for _ in range(_BINS)]
    for at, line in sent:
        bins[min(_BINS - 1, int((at - start) / width))].append(line)
    return [
        Bin(
            at_s=(number + 0.5) * width,
            requests=len(lines),
            hit_rate=hit_rates(lines).rate,
            ideal_rate=hit_rates(lines).ideal,
        )
        for number, lines in enumerate(bins)
        if lines
    ]


def loss(runs: Sequence[Run], phase: str) -> Loss:
    """What was short of the ideal, and why."""
    by_verdict: dict[str, int] = {}
    prompt, unknown = 0, 0
    for line in _answered(runs, phase):
        if line.ideal_tokens is None or line.cached_tokens is None or line.prompt_tokens is None:
            unknown += 1
            continue
        prompt += line.prompt_tokens
        short = line.ideal_tokens - line.cached_tokens
        if short > 0:
            verdict = line.verdict or "unknown"
            by_verdict[verdict] = by_verdict.get(verdict, 0) + short
    ordered = sorted(by_verdict.items(), key=lambda item: -item[1])
    return Loss(by_verdict=dict(ordered), prompt_tokens=prompt, unknown_requests=unknown)


def _is_hit(line: RequestLine) -> bool | None:
    if line.cached_tokens is None or not line.prompt_tokens:
        return None
    return line.cached_tokens >= HIT_SHARE * line.prompt_tokens


def _answered(runs: Sequence[Run], phase: str) -> Iterator[RequestLine]:
    return (line for run in runs for line in of_phase(run, phase) if line.ok)
