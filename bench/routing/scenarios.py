"""The passes that make the result: the grid, wrong knowledge, and one scaffold for all."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from app.routing import ConsistentHash, LeastLoaded, LeastTtft, RoundRobin, RoutingPolicy
from bench.routing.fleet import new_fleet
from bench.routing.routers import CacheAware, ForewordRouter, Router
from bench.routing.simulate import Restart, freely_moved, pooled, replay
from bench.routing.views import EventView, SentView, View
from bench.routing.workloads import NUM_REPLICAS, Cell, cells, middle_cells, one_scaffold

Row = dict[str, Any]

POLICIES: Mapping[str, Callable[[], RoutingPolicy]] = {
    "least-ttft": LeastTtft,
    "round-robin": RoundRobin,
    "least-loaded": LeastLoaded,
    "consistent-hash": ConsistentHash,
}
CACHE_AWARE = "sglang cache_aware (model)"
FREELY_MOVED = "bound: KV is everywhere"
_SCAFFOLD_TOKENS_PER_S = 10_000.0
_SCAFFOLD_BUSY = 0.6


def grid(folder: Path, *, jobs: int) -> list[Row]:
    """Every router on every cell."""
    with ProcessPoolExecutor(jobs) as pool:
        return [
            row for rows in pool.map(partial(_grid_cell, folder), cells(folder)) for row in rows
        ]


def robustness(folder: Path, *, jobs: int) -> list[Row]:
    """`least-ttft` with knowledge that is wrong or missing; loss against one that knows."""
    with ProcessPoolExecutor(jobs) as pool:
        made = pool.map(partial(_robustness_cell, folder), middle_cells(folder))
        return [row for rows in made for row in rows]


def shared_scaffold(*, jobs: int) -> list[Row]:
    """All requests share one scaffold, and come faster than any one replica could answer."""
    with ProcessPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(_scaffold_rows, NUM_REPLICAS) for row in rows]


def _foreword(policy: RoutingPolicy, num_replicas: int) -> ForewordRouter:
    return ForewordRouter(policy, EventView(num_replicas), num_replicas)


def _routers(num_replicas: int) -> Iterator[tuple[str, Router]]:
    for name, make in POLICIES.items():
        yield name, _foreword(make(), num_replicas)
    yield CACHE_AWARE, CacheAware()


def _grid_cell(folder: Path, cell: Cell) -> list[Row]:
    arrivals = cell.arrivals(folder)
    best = pooled(arrivals, capacity=cell.capacity * cell.num_replicas)
    infinite = pooled(arrivals, capacity=float("inf"))
    outcomes = {}
    for name, router in _routers(cell.num_replicas):
        fleet = new_fleet(
            cell.num_replicas,
            capacity=cell.capacity,
            prefill_tokens_per_s=cell.workload.prefill_tokens_per_s,
        )
        outcomes[name] = replay(arrivals, fleet, [router])
    outcomes[FREELY_MOVED] = freely_moved(
        arrivals,
        cell.num_replicas,
        capacity=cell.capacity * cell.num_replicas,
        prefill_tokens_per_s=cell.workload.prefill_tokens_per_s,
    )
    return [
        _cell_row(cell)
        | {"router": name}
        | {
            part: asdict(outcome) | {"pooled": best[number], "infinite": infinite[number]}
            for number, (part, outcome) in enumerate(
                (("all", halves.whole), ("second_half", halves.second))
            )
        }
        for name, halves in outcomes.items()
    ]


def _cell_row(cell: Cell) -> Row:
    return {
        "trace": cell.workload.name,
        "replicas": cell.num_replicas,
        "capacity_blocks": cell.capacity,
    }


def _faults(cell: Cell, middle_s: float) -> Iterable[tuple[str, list[View], Restart | None]]:
    """What a gateway knows, by name; the first is what the others are compared with."""
    k, size = cell.num_replicas, cell.capacity
    yield "KV events, one gateway", [EventView(k)], None
    yield "5 % of the events lost", [EventView(k, lost=0.05)], None
    yield "30 % of the events lost", [EventView(k, lost=0.3)], None
    yield "KV events 5 s late", [EventView(k, lag_s=5.0)], None
    for factor in (0.25, 0.5, 1, 2, 4):
        believed = SentView(k, believed_capacity=int(size * factor))
        yield f"no events, caches believed {factor:g} times as large", [believed], None
    for noticed in (True, False):
        restart = Restart(at_s=middle_s, replica=0, noticed=noticed)
        # Without events nobody else would tell that a cache is empty.
        yield (
            f"no events, a replica restarts{'' if noticed else ', unnoticed'}",
            [SentView(k, believed_capacity=size)],
            restart,
        )
    yield (
        "KV events, a replica restarts",
        [EventView(k)],
        Restart(at_s=middle_s, replica=0, noticed=True),
    )
    for gateways in (2, 4):
        yield f"{gateways} gateways, KV events", [EventView(k) for _ in range(gateways)], None
    two: list[View] = [SentView(k, believed_capacity=size) for _ in range(2)]
    yield "2 gateways, no events, nothing shared", two, None


def _robustness_cell(folder: Path, cell: Cell) -> list[Row]:
    arrivals = cell.arrivals(folder)
    rows: list[Row] = []
    for name, views, restart in _faults(cell, arrivals[-1].at_s / 2):
        k = cell.num_replicas
        fleet = new_fleet(
            k, capacity=cell.capacity, prefill_tokens_per_s=cell.workload.prefill_tokens_per_s
        )
        routers = [ForewordRouter(LeastTtft(), view, k) for view in views]
        outcome = replay(arrivals, fleet, routers, restart=restart).whole
        base = rows[0]["hit_rate"] if rows else outcome.hit_rate
        rows.append(
            _cell_row(cell)
            | {"knowledge": name}
            | asdict(outcome)
            | {"lost_share": 1 - outcome.hit_rate / base}
        )
    return rows


def _scaffold_rows(num_replicas: int) -> list[Row]:
    # With the scaffold held, a request has two blocks of its own to compute.
    per_s = _SCAFFOLD_BUSY * num_replicas * _SCAFFOLD_TOKENS_PER_S / 1024
    arrivals = one_scaffold(requests=int(per_s * 600), per_s=per_s)
    rows = []
    for name, router in _routers(num_replicas):
        fleet = new_fleet(num_replicas, capacity=3200, prefill_tokens_per_s=_SCAFFOLD_TOKENS_PER_S)
        outcome = replay(arrivals, fleet, [router]).whole
        holders = sum(1 for replica in fleet if replica.cache.held(arrivals[0].blocks[:8]) == 8)
        rows.append(
            {"replicas": num_replicas, "router": name, "holders": holders}
            | asdict(outcome)
            | {"pooled": pooled(arrivals, capacity=3200 * num_replicas)[0]}
        )
    return rows
