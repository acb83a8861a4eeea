"""Runs made up for tests: each line as a client would have seen it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.compare.arms import Arm
from bench.run_folder import Load, RequestLine, Run, RunFacts, Target, WorkloadRef


def facts(**changed: object) -> RunFacts:
    """Of a closed loop against a real engine."""
    given: dict[str, object] = {
        "command": "foreword bench run",
        "workload": WorkloadRef(name="w", sha256="aa" * 32, requests=3),
        "target": Target(url="http://127.0.0.1:1", kind="foreword", simulated=False),
        "model": "m",
        "load": Load(kind="closed", concurrency=1),
        **changed,
    }
    return RunFacts(**given)  # type: ignore[arg-type]


def line(id: str, *, ttft_s: float = 0.1, at_s: float = 0.0, **more: object) -> RequestLine:
    """A request that was answered with five tokens."""
    given: dict[str, object] = {
        "id": id,
        "sent_s": at_s,
        "first_token_s": at_s + ttft_s,
        "last_token_s": at_s + ttft_s + 0.4,
        "done_s": at_s + ttft_s + 0.4,
        "status": 200,
        "prompt_tokens": 100,
        "output_tokens": 5,
        "cached_tokens": 0,
        **more,
    }
    return RequestLine(**given)  # type: ignore[arg-type]


def run(ttfts: dict[str, float], *, name: str = "1", **changed: object) -> Run:
    """A run with these times to first token."""
    made = tuple(
        line(id, ttft_s=ttft_s, at_s=float(number))
        for number, (id, ttft_s) in enumerate(ttfts.items())
    )
    return Run(folder=Path(name), facts=facts(**changed), requests=made)


def arm(name: str, *runs: Run) -> Arm:
    """Rounds of one thing."""
    return Arm(name=name, runs=runs)


def noisy_rounds(
    source: np.random.Generator,
    *,
    rounds: int,
    requests: int,
    factor: float = 1.0,
    run_spread: float = 0.05,
    base: Callable[[int], float] = lambda number: 0.1 + 0.01 * (number % 7),
) -> list[dict[str, float]]:
    """Times of a machine on which each run, as a whole, and each request vary."""
    made = []
    for _ in range(rounds):
        of_run = 1 + run_spread * source.standard_normal()
        spread = source.lognormal(0, 0.3, size=requests)
        made.append({f"{n:04}": base(n) * factor * of_run * spread[n] for n in range(requests)})
    return made
