"""A trace through everything that was asked for; each part is measured for what it costs."""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.errors import ReplayError
from bench.replay import results
from bench.replay.curve import Curve, by_tier, lru_curve
from bench.replay.fleet import FleetOptions, replay_fleet
from bench.replay.moved import moved_bound
from bench.replay.policies import BELADY, measure
from bench.replay.reuse import NotChainedError, ReuseChunk, reuses
from bench.replay.steps import Rules, Steps
from bench.traces import Trace

SCHEMA_VERSION = 1
_OCTAVES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked. Capacities in pages; None or empty leaves a part out."""

    rules: Rules
    policies: Sequence[str]
    capacities: Sequence[int] | None = None
    tiers: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    replica_pages: int = 3200
    routers: Sequence[str] = ()
    prefill_tokens_per_s: float = 10_000.0
    second_half: bool = False
    bounded: bool = False
    moved: bool = False


class _Costs:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        started_s = time.process_time()
        yield
        self.cpu_s[part] = round(time.process_time() - started_s, 3)


def replay_trace(trace: Trace, plan: Plan) -> dict[str, Any]:
    """All that was asked, as plain values; `results.text` makes a table of it.

    Raises:
        TraceError: the trace can't be read as one.
        ReplayError: it can't be replayed as asked.
    """
    steps, costs = Steps(trace, plan.rules), _Costs()
    skip = sum(1 for _ in trace) // 2 if plan.second_half else 0
    with costs.of("lru at all capacities"):
        chunks, curve, tiers = _curves(steps, plan, skip)
    with costs.of("other policies"):
        measured = list(measure(steps, plan.policies, curve, chunks))
    size, bound = steps.page_tokens, curve.bound
    fleet = []
    for replicas in plan.replicas or ():
        options = FleetOptions(
            replicas=replicas,
            capacity=plan.replica_pages,
            page_tokens=size,
            prefill_tokens_per_s=plan.prefill_tokens_per_s,
        )
        for router in plan.routers:
            with costs.of(f"{router}, {replicas} replicas"):
                outcome = replay_fleet(steps, router, options, skip=skip)
            capacity_tokens = plan.replica_pages * size
            fleet.append(
                results.fleet_row(
                    outcome, bound, replicas=replicas, capacity_tokens=capacity_tokens
                )
            )
    return {
        "schema_version": SCHEMA_VERSION,
        "simulated": True,
        "trace": trace.name,
        "page_tokens": size,
        "rules": {"whole_pages": plan.rules.whole_pages, "answers": plan.rules.answers},
        "scored": "the second half" if plan.second_half else "all requests",
        # Where only a fleet was asked for, only the fleet has counted.
        **{
            name: fleet[0][name] if fleet else getattr(bound, name)
            for name in ("requests", "input_tokens")
        },
        "bound": bound.hit_rate,
        "policies": results.policy_rows(measured, bound, page_tokens=size) if measured else [],
        "tiers": results.tier_rows(tiers.capacities, by_tier(tiers), bound, page_tokens=size),
        "fleet": fleet,
        "moved": [results.moved_row(moved_bound(trace, skip=skip), bound)] if plan.moved else [],
        "cpu_s": costs.cpu_s,
        "peak_rss_mb": _peak_rss_mb(),
    }


def _curves(steps: Steps, plan: Plan, skip: int) -> tuple[list[ReuseChunk], Curve, Curve]:
    """The one pass; chunks are kept only where something else needs them."""
    capacities, tiers, size = plan.capacities, plan.tiers or (), steps.page_tokens
    if not plan.policies and not tiers:
        # Only a fleet is asked for, and it needs neither.
        nothing = Curve(page_tokens=size, capacities=())
        return [], nothing, nothing
    try:
        if not plan.bounded:
            chunks = list(reuses(steps))
            capacities = capacities or _octaves(chunks)
            curve = lru_curve(chunks, capacities, page_tokens=size, skip=skip)
            return chunks, curve, lru_curve(chunks, tiers, page_tokens=size, skip=skip)
        if not capacities or BELADY in plan.policies:
            problem = "wants --capacities and other policies than belady to be replayed --bounded"
            raise ReplayError(steps.name, problem)
        curve = Curve(page_tokens=size, capacities=capacities, skip=skip)
        by_tiers = Curve(page_tokens=size, capacities=tiers, skip=skip)
        for chunk in reuses(steps, most_blocks=max(*capacities, *tiers, 1)):
            curve.add(chunk)
            by_tiers.add(chunk)
    except NotChainedError as error:
        raise ReplayError(steps.name, f"can't be replayed: {error}") from error
    return [], curve, by_tiers


def _octaves(chunks: Sequence[ReuseChunk]) -> list[int]:
    """Powers of two up to the room in which nothing that is asked for again is ever missing."""
    most = max((int((c.base + c.length).max()) for c in chunks if len(c.base)), default=1)
    top = most.bit_length()
    return [1 << power for power in range(max(0, top - _OCTAVES + 1), top + 1)]


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 if sys.platform == "linux" else 1024 * 1024), 1)
