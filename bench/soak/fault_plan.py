"""Which of the simulator's faults are ordered when, by the number of requests so far. Pure."""

from typing import Any

EVENT_BUFFER_STEPS = 200
"""KV events that can be asked for again; more than these lost in a row are lost for good."""

_LOST_FOR_GOOD = EVENT_BUFFER_STEPS + 50

Order = dict[str, Any]

# (every so many requests, the fault)
_PLAN: tuple[tuple[int, Order], ...] = (
    (331, {"kind": "error", "status": 500}),
    (607, {"kind": "error", "status": 503}),
    (409, {"kind": "drop", "after_chunks": 2}),
    (1_013, {"kind": "drop", "after_chunks": 0}),
    (251, {"kind": "lose_events", "times": 3}),
    (3_607, {"kind": "lose_events", "times": _LOST_FOR_GOOD}),
)


def orders_at(number: int) -> list[Order]:
    """The faults to order before request `number` (from 1)."""
    return [order for every, order in _PLAN if number % every == 0]


def breaks_answers(order: Order) -> bool:
    """Whether a request that meets it fails."""
    return order["kind"] in ("error", "drop")
