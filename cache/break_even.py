"""Does loading KV from a tier beat computing it again? Pure.

Loading n tokens takes latency + n x s_per_token, computing them n / prefill speed. A tier that
loads each token slower than it is computed never pays; one that is faster pays from the length at
which its latency is won back. `decide` switches a tier off and tries it again later.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from cache.load_cost import LoadCost
from cache.prefill_speed import PrefillSpeed


class TierVerdict(StrEnum):
    """Whether a tier's loads pay."""

    PAYS = "pays"
    SLOWER = "slower than computing"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """One tier against computing.

    Attributes:
        load_tokens_per_s: None until measured; infinite where a load took no time at all.
        pays_from_tokens: the shortest load that takes less time than computing; None where none
            does, or where it isn't known.
        ratio: computing time / load time at `typical_tokens`; above 1 the load wins.
        typical_tokens: the mean load so far; where loads aren't counted apart, all that was loaded.
    """

    verdict: TierVerdict
    load_tokens_per_s: float | None = None
    latency_s: float | None = None
    compute_tokens_per_s: float | None = None
    pays_from_tokens: float | None = None
    typical_tokens: float | None = None
    ratio: float | None = None
    loads: int = 0
    loaded_tokens: float = 0


def break_even(cost: LoadCost | None, speed: PrefillSpeed | None) -> BreakEven:
    """A tier against computing; without both measurements there is no verdict."""
    if cost is None or speed is None:
        return BreakEven(
            verdict=TierVerdict.NOT_MEASURED,
            load_tokens_per_s=cost.tokens_per_s if cost else None,
            latency_s=cost.latency_s if cost else None,
            compute_tokens_per_s=speed.tokens_per_s if speed else None,
            loads=cost.loads if cost else 0,
            loaded_tokens=cost.tokens if cost else 0,
        )
    typical = cost.tokens / max(cost.loads, 1)
    load_s = cost.seconds(typical)
    ratio = typical / speed.tokens_per_s / load_s if load_s > 0 else float("inf")
    return BreakEven(
        verdict=TierVerdict.PAYS if ratio > 1 else TierVerdict.SLOWER,
        load_tokens_per_s=cost.tokens_per_s,
        latency_s=cost.latency_s,
        compute_tokens_per_s=speed.tokens_per_s,
        pays_from_tokens=_pays_from(cost, speed),
        typical_tokens=typical,
        ratio=ratio,
        loads=cost.loads,
        loaded_tokens=cost.tokens,
    )


def _pays_from(cost: LoadCost, speed: PrefillSpeed) -> float | None:
    saved_s_per_token = 1 / speed.tokens_per_s - cost.s_per_token
    return cost.latency_s / saved_s_per_token if saved_s_per_token > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """When a tier is switched off and tried again.

    Attributes:
        off_below: off when computing would take less than this share of the load's time ...
        on_above: ... and back for good only when the load wins by this factor: between the two
            nothing changes, so that noise switches nothing.
        least_loads, least_tokens: evidence without which nothing is decided.
        retest_s: time until a tier that is off is tried again; doubled after each trial that
            fails, to `longest_retest_s` at most.
    """

    off_below: float = 0.95
    on_above: float = 1.1
    least_loads: int = 4
    least_tokens: float = 1024
    retest_s: float = 300.0
    longest_retest_s: float = 3600.0

    def __post_init__(self) -> None:
        if not 0 < self.off_below <= self.on_above:
            raise ValueError("off_below must be above 0 and not above on_above")


class SwitchPhase(StrEnum):
    """Where a tier stands."""

    ON = "on"
    OFF = "off"
    TRIAL = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """What `decide` remembers of one tier; `retest_at` counts on the caller's clock."""

    phase: SwitchPhase = SwitchPhase.ON
    retest_at: float = 0.0
    failed_trials: int = 0

    @property
    def wanted(self) -> bool:
        """Whether the tier should serve loads now."""
        return self.phase is not SwitchPhase.OFF


def decide(state: SwitchState, found: BreakEven, *, rules: SwitchRules, at: float) -> SwitchState:
    """What becomes of a tier, by what was measured since its phase began.

    A caller must forget older measurements when a trial begins.
    """
    if state.phase is SwitchPhase.OFF:
        if at < state.retest_at:
            return state
        return replace(state, phase=SwitchPhase.TRIAL)
    if found.ratio is None or not _enough(found, rules):
        return state
    if state.phase is SwitchPhase.TRIAL and found.ratio >= rules.on_above:
        return SwitchState()
    bar = rules.on_above if state.phase is SwitchPhase.TRIAL else rules.off_below
    if found.ratio >= bar:
        return state
    return switched_off(state, rules=rules, at=at)


def switched_off(state: SwitchState, *, rules: SwitchRules, at: float) -> SwitchState:
    """The tier off from now, with its next trial set."""
    failed = state.failed_trials + (state.phase is SwitchPhase.TRIAL)
    pause_s = min(rules.retest_s * 2.0 ** min(failed, 32), rules.longest_retest_s)
    return SwitchState(phase=SwitchPhase.OFF, retest_at=at + pause_s, failed_trials=failed)


def _enough(found: BreakEven, rules: SwitchRules) -> bool:
    return found.loads >= rules.least_loads and has_enough_tokens(found, rules)


def has_enough_tokens(found: BreakEven, rules: SwitchRules) -> bool:
    """Loads that brought nothing were late, and need no tokens to show that they don't pay."""
    return found.loaded_tokens >= rules.least_tokens or not found.loaded_tokens
