"""Replays' rows as lines over capacity. Pure.

Drawn are rows of policies with a capacity in tokens; `bound`, which room for everything would give,
is a line of its own. Tiers and fleets stand in tables only: what they tell isn't a point on a
policy's line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BOUND = "room for everything"
_NAMES = ("policy", "router", "replicas", "tier")
_OTHERS = ("router", "tier")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPoint:
    """A cache's size and what it re-used."""

    capacity_tokens: float
    hit_rate: float


def curves(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[CapacityPoint]]:
    """Points by line, in order of capacity; a line's name has its trace if there are several."""
    found: dict[str, list[CapacityPoint]] = {}
    traces = {row.get("trace") for row in rows}
    for row in rows:
        capacity = row.get("capacity_tokens")
        if not isinstance(capacity, int | float) or any(name in row for name in _OTHERS):
            continue
        trace = str(row["trace"]) if len(traces) > 1 and row.get("trace") else None
        for name, rate in ((_name(row), row.get("hit_rate")), (BOUND, row.get("bound"))):
            if isinstance(rate, int | float):
                point = CapacityPoint(capacity_tokens=capacity, hit_rate=rate)
                line = found.setdefault(" ".join(filter(None, (trace, name))), [])
                if point not in line:
                    line.append(point)
    return {name: sorted(points, key=lambda p: p.capacity_tokens) for name, points in found.items()}


def _name(row: Mapping[str, Any]) -> str:
    told = [f"{row[name]} replicas" if name == "replicas" else str(row[name]) for name in _NAMES
            if row.get(name) is not None]  # fmt: skip
    return " ".join(told) or "replay"
