"""When a collection changes its mode: hysteresis, and a warming that must have been earned. Pure.

Making a prefix costs once what answering without it costs again and again: the ski rental problem.
A collection stays in its mode until what another would have saved adds up to a share (`patience`)
of what going there costs on top of the query at hand, whose own answer pays for the rest of it. In
the long run the other mode must be cheaper by a margin, and a mode is kept for a while.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from app.modes.prices import ModeCost
from app.schemas import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """How readily modes change.

    Attributes:
        margin: a query must cost less by this share in the long run.
        dwell_s: a mode is kept at least so long, as far as its prefix is still there.
        patience: share of the warming's cost that must have been missed before it is paid. 1 is
            never worse than twice the best in hindsight; less wins more often, since what was
            asked often is asked again.
    """

    margin: float = 0.1
    dwell_s: float = 60.0
    patience: float = 0.12

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1 or self.dwell_s < 0 or self.patience < 0:
            raise ValueError("margin is 0 to 1; dwell_s and patience are 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A collection's mode, since when, and what the other modes would have saved since."""

    mode: Mode = Mode.RAG
    since: float | None = None
    missed_s: Mapping[Mode, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a collection stands after a query, and why."""

    standing: Standing
    reason: str


def step(
    standing: Standing,
    costs: Mapping[Mode, ModeCost],
    *,
    allowed: Collection[Mode],
    rules: SwitchRules,
    at: float,
) -> Step:
    """The next standing, for a query with these costs. `allowed` passed the quality gate."""
    current = costs[standing.mode]
    if not current.possible:
        return _forced(costs, allowed, current.problem or "", at)
    missed = _missed(standing, costs)
    standing = replace(standing, missed_s=missed)
    candidates = [
        mode
        for mode, cost in costs.items()
        if mode is not standing.mode
        and mode in allowed
        and cost.possible
        and cost.lasting_s < current.lasting_s * (1 - rules.margin)
    ]
    best = min(candidates, key=lambda mode: costs[mode].lasting_s, default=None)
    if best is None:
        return Step(standing=standing, reason=_cheapest(standing.mode, costs))
    if _is_kept(standing, current, rules, at):
        assert standing.since is not None
        left_s = rules.dwell_s - (at - standing.since)
        return Step(
            standing=standing,
            reason=f"{_compared(standing.mode, best, costs)}, but a mode is kept for "
            f"{rules.dwell_s:g} s, of which {left_s:.0f} are left",
        )
    price_s = max(0.0, costs[best].total_s - current.total_s)
    if missed[best] < rules.patience * price_s:
        return Step(
            standing=standing,
            reason=f"{_compared(standing.mode, best, costs)}; going there costs {price_s:.3g} s "
            f"once, and {missed[best]:.3g} s were missed so far",
        )
    return Step(
        standing=Standing(mode=best, since=at),
        reason=f"{_compared(standing.mode, best, costs)}"
        + (f"; {price_s:.3g} s for warming are earned" if price_s > 0 else ""),
    )


def _is_kept(standing: Standing, current: ModeCost, rules: SwitchRules, at: float) -> bool:
    """Whether the mode is too young to be left. A prefix that is gone needs no protection: most of
    what this query costs is for making it once more."""
    if standing.since is None or at - standing.since >= rules.dwell_s:
        return False
    return current.warm_s < current.total_s / 2


def _missed(standing: Standing, costs: Mapping[Mode, ModeCost]) -> dict[Mode, float]:
    """What each other mode would have saved until now, this query included; never below 0."""
    here = costs[standing.mode].lasting_s
    return {
        mode: max(0.0, standing.missed_s.get(mode, 0.0) + here - cost.lasting_s)
        for mode, cost in costs.items()
        if mode is not standing.mode and cost.possible
    }


def _forced(
    costs: Mapping[Mode, ModeCost], allowed: Collection[Mode], problem: str, at: float
) -> Step:
    """The mode can't answer any more: the cheapest of those that can, retrieval if none."""
    possible = [mode for mode, cost in costs.items() if cost.possible and mode in allowed]
    possible = possible or [mode for mode, cost in costs.items() if cost.possible]
    mode = min(possible, key=lambda each: costs[each].lasting_s, default=Mode.RAG)
    return Step(standing=Standing(mode=mode, since=at), reason=problem)


def _compared(here: Mode, there: Mode, costs: Mapping[Mode, ModeCost]) -> str:
    return (
        f"a query costs {costs[there].lasting_s:.3g} s with {there.value} and "
        f"{costs[here].lasting_s:.3g} s with {here.value} in the long run"
    )


def _cheapest(here: Mode, costs: Mapping[Mode, ModeCost]) -> str:
    others = [mode for mode, cost in costs.items() if mode is not here and cost.possible]
    if not others:
        problems = "; ".join(
            f"{mode.value} can't be: {cost.problem}"
            for mode, cost in costs.items()
            if not cost.possible
        )
        return problems or f"only {here.value} is possible"
    best = min(others, key=lambda mode: costs[mode].lasting_s)
    if costs[best].lasting_s < costs[here].lasting_s:
        return f"{_compared(here, best, costs)}: too little to change, or not allowed"
    return _compared(here, best, costs)
