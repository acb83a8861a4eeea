"""A replay's rows as tables: policies over capacities, tiers, fleets, other bounds. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.compare.page import value
from bench.pages.table import Table

Row = Mapping[str, Any]

BEST = "belady"
_RIVAL, _HINTS = "lru", "hints"
_UNBOUNDED = "no bound"


def replay_words(rows: Sequence[Row]) -> Iterator[str]:
    """What was replayed, and what room for everything would give."""
    for name, scored in dict.fromkeys((row.get("trace"), row.get("scored")) for row in rows):
        if name is not None:
            yield f"`{name}`, {scored or 'all requests'}."
    bounds = {
        (row["bound"], row.get("input_tokens"), row.get("requests"))
        for row in rows
        if row.get("bound") is not None and "requests" in row
    }
    for bound, tokens, requests in sorted(bounds):
        of = "" if tokens is None else f" of {tokens:,} prompt tokens in {requests:,} requests"
        yield f"Room for everything: {value(bound, 'share')}{of}."
    if any(row.get("policy") == BEST for row in rows):
        yield (
            f"\"Of the best\" is the mean over the capacities of a policy's rate over {BEST}'s, "
            "which knows what is asked for next."
        )
    if any("simulated_ttft_mean_s" in row for row in rows):
        yield (
            "Times are of a simulated clock that only computes prompts: good for comparing. Where "
            "replicas are busy for more than 100 % of the trace's time, they only say that."
        )


def replay_tables(rows: Sequence[Row]) -> list[Table]:
    """A table for each kind of row that there is."""
    fleet = [row for row in rows if "router" in row]
    tiers = [row for row in rows if "tier" in row]
    moved = [row for row in rows if row.get("usable") is False]
    others = [row for row in rows if not any(row is each for each in (*fleet, *tiers, *moved))]
    made = [_policies(others), _tiers(tiers), _fleet(fleet), _moved(moved)]
    return [table for table in made if table.rows]


def _policies(rows: Sequence[Row]) -> Table:
    """A line for each policy, and for hints one that says how far above LRU they are."""
    capacities = sorted(
        {row.get("capacity_tokens") for row in rows}, key=lambda c: (c is None, c or 0)
    )
    rates = {(str(r.get("policy")), r.get("capacity_tokens")): r.get("hit_rate") for r in rows}
    policies = list(dict.fromkeys(str(row.get("policy")) for row in rows))
    with_best = BEST in policies
    lines = []
    for policy in policies:
        found = [rates.get((policy, capacity)) for capacity in capacities]
        best = [rates.get((BEST, capacity)) for capacity in capacities]
        lines.append(
            [policy, *("" if rate is None else value(rate, "share") for rate in found)]
            + ([_factor(_mean(_ratios(found, best)))] if with_best else [])
        )
    for policy in policies:
        if policy.startswith(_HINTS) and _RIVAL in policies:
            over = _ratios(
                [rates.get((policy, capacity)) for capacity in capacities],
                [rates.get((_RIVAL, capacity)) for capacity in capacities],
            )
            lines.append([f"{policy} / {_RIVAL}", *map(_factor, over), *([""] * with_best)])
    heads = (_UNBOUNDED if c is None else f"{c:,}" for c in capacities)
    columns = [
        "policy, by capacity in tokens",
        *(f"{head}:" for head in heads),
        *(["of the best:"] * with_best),
    ]
    return Table(columns=columns, rows=lines)


def _tiers(rows: Sequence[Row]) -> Table:
    return Table(
        columns=["tier", "capacity, tokens:", "adds to those above it:"],
        rows=[
            [str(row["tier"]), _count(row.get("capacity_tokens")), _share(row.get("hit_rate"))]
            for row in rows
        ],
    )


def _fleet(rows: Sequence[Row]) -> Table:
    return Table(
        columns=["router", "replicas:", "tokens each:", "hit rate:", "busy:", "busiest over mean:",
                 "simulated TTFT mean:", "p50:", "p99:"],
        rows=[
            [
                str(row["router"]),
                _count(row.get("replicas")),
                _count(row.get("capacity_tokens")),
                _share(row.get("hit_rate")),
                _share(row.get("busy")),
                "unknown" if row.get("imbalance") is None else f"{row['imbalance']:.2f}",
                *(value(row.get(f"simulated_ttft_{part}_s"), "s") for part in ("mean", "p50",
                                                                              "p99")),
            ]
            for row in rows
        ],
    )  # fmt: skip


def _moved(rows: Sequence[Row]) -> Table:
    return Table(
        columns=["an upper bound", "hit rate:", ""],
        rows=[
            [str(row.get("policy")), _share(row.get("hit_rate")), str(row.get("note", ""))]
            for row in rows
        ],
    )


def _ratios(ones: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    return [
        one / other if one is not None and other else None
        for one, other in zip(ones, others, strict=True)
    ]


def _mean(ratios: Sequence[float | None]) -> float | None:
    """Of those that are known."""
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) / len(known) if known else None


def _factor(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}"


def _count(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


def _share(rate: float | None) -> str:
    return value(rate, "share")
