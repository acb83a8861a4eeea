"""What a replay found: rows that plots are made of, and a table to read. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.replay.curve import Sums
from bench.replay.fleet import FleetOutcome
from bench.replay.moved import NOT_USABLE
from bench.replay.policies import Measured

Row = dict[str, Any]
UNBOUNDED = "unbounded"


def sums_row(policy: str, sums: Sums, bound: Sums, **more: object) -> Row:
    """A row: tokens, never blocks; the rate is of all prompt tokens, and so is the bound."""
    return {
        "policy": policy,
        **more,
        "hit_tokens": sums.hit_tokens,
        "input_tokens": sums.input_tokens,
        "requests": sums.requests,
        "hit_rate": sums.hit_rate,
        "bound": bound.hit_rate,
    }


def policy_rows(measured: Sequence[Measured], bound: Sums, *, page_tokens: int) -> list[Row]:
    """A row for each policy and capacity, and one for room without end."""
    rows = [
        sums_row(
            m.policy,
            m.sums,
            bound,
            capacity_pages=m.capacity,
            capacity_tokens=m.capacity * page_tokens,
        )
        for m in measured
    ]
    return [*rows, sums_row(UNBOUNDED, bound, bound, capacity_pages=None, capacity_tokens=None)]


def tier_rows(
    capacities: Sequence[int], hits: Sequence[int], bound: Sums, *, page_tokens: int
) -> list[Row]:
    """A row for each tier: what it adds to those above it."""
    return [
        {
            "tier": f"G{number}",
            "capacity_pages": capacity,
            "capacity_tokens": capacity * page_tokens,
            "hit_tokens": hit,
            "input_tokens": bound.input_tokens,
            "hit_rate": hit / bound.input_tokens if bound.input_tokens else None,
            "bound": bound.hit_rate,
        }
        for number, (capacity, hit) in enumerate(zip(capacities, hits, strict=True), start=1)
    ]


def fleet_row(outcome: FleetOutcome, bound: Sums, *, replicas: int, capacity_tokens: int) -> Row:
    """A row for a router over replicas; times are of a simulated clock."""
    return sums_row(
        "lru", outcome.sums, bound, router=outcome.router, replicas=replicas,
        capacity_tokens=capacity_tokens, imbalance=outcome.imbalance, busy=outcome.busy,
        simulated_ttft_mean_s=outcome.ttft_mean_s, simulated_ttft_p50_s=outcome.ttft_p50_s,
        simulated_ttft_p99_s=outcome.ttft_p99_s,
    )  # fmt: skip


def moved_row(sums: Sums, bound: Sums) -> Row:
    """The bound with pieces that may stand anywhere."""
    return sums_row("position-independent", sums, bound, usable=False, note=NOT_USABLE)


def text(told: Mapping[str, Any]) -> str:
    """The same to read: shares of all prompt tokens, in per cent."""
    lines = [
        f"{told['trace']}: pages of {told['page_tokens']} tokens. No engine was asked.",
        f"Hit rates are tokens found over all prompt tokens of {told['scored']}.",
    ]
    if told["bound"] is not None:
        lines.append(
            f"With room for everything: {_percent(told['bound'])} of {told['input_tokens']:,} "
            f"tokens in {told['requests']:,} requests"
        )
    if told["policies"]:
        lines += ["", *_policies(told["policies"])]
    if told["tiers"]:
        lines += ["", "tier   capacity in tokens   adds"]
        lines += [
            f"{row['tier']:4} {row['capacity_tokens']:20,} {_percent(row['hit_rate']):>7}"
            for row in told["tiers"]
        ]
    if told["fleet"]:
        lines += ["", "router        replicas   hit rate   busiest/mean   simulated TTFT mean, p99"]
        lines += [
            f"{row['router']:13} {row['replicas']:8} {_percent(row['hit_rate']):>10} "
            f"{row['imbalance']:14.2f}   {row['simulated_ttft_mean_s']:.2f} s, "
            f"{row['simulated_ttft_p99_s']:.2f} s"
            for row in told["fleet"]
        ]
    for row in told["moved"]:
        rate = _percent(row["hit_rate"])
        lines += ["", f"Pieces wherever they stand: at most {rate} ({row['note']})"]
    return "\n".join(lines)


def _policies(rows: Sequence[Row]) -> list[str]:
    """Policies by capacities."""
    bounded = [row for row in rows if row["capacity_tokens"] is not None]
    capacities = list(dict.fromkeys(row["capacity_tokens"] for row in bounded))
    rates = {(row["policy"], row["capacity_tokens"]): row["hit_rate"] for row in bounded}
    names = list(dict.fromkeys(row["policy"] for row in bounded))
    lines = ["tokens       " + "".join(f"{capacity:>13,}" for capacity in capacities)]
    for name in names:
        cells = (f"{_percent(rates[name, capacity]):>13}" for capacity in capacities)
        lines.append(f"{name:13}{''.join(cells)}")
    return lines


def _percent(rate: float | None) -> str:
    return "?" if rate is None else f"{100 * rate:.2f} %"
