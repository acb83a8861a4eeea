"""When a load pays, and when a tier is switched."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cache.break_even import (
    BreakEven,
    SwitchPhase,
    SwitchRules,
    SwitchState,
    TierVerdict,
    break_even,
    decide,
)
from cache.load_cost import LoadCost
from cache.prefill_speed import PrefillSpeed

RULES = SwitchRules(retest_s=100, longest_retest_s=1000)


def cost(
    tokens_per_s: float, *, latency_s: float = 0, loads: int = 10, tokens: float = 10_000
) -> LoadCost:
    return LoadCost(latency_s=latency_s, s_per_token=1 / tokens_per_s, loads=loads, tokens=tokens)


def speed(tokens_per_s: float) -> PrefillSpeed:
    return PrefillSpeed(tokens_per_s=tokens_per_s, tokens=10_000)


def test_without_both_measurements_there_is_no_verdict() -> None:
    for found in (
        break_even(None, None),
        break_even(cost(100), None),
        break_even(None, speed(1)),
    ):
        assert found.verdict is TierVerdict.NOT_MEASURED
        assert found.ratio is None
        assert found.pays_from_tokens is None


def test_a_tier_faster_than_computing_pays_from_where_its_latency_is_won_back() -> None:
    found = break_even(cost(4000, latency_s=0.3), speed(1000))
    assert found.verdict is TierVerdict.PAYS
    assert found.pays_from_tokens == pytest.approx(400)


def test_a_tier_slower_than_computing_never_pays() -> None:
    found = break_even(cost(900), speed(1000))
    assert found.verdict is TierVerdict.SLOWER
    assert found.pays_from_tokens is None


def test_a_fast_tier_is_slower_for_loads_too_short_for_its_latency() -> None:
    """As when Redis is far away: 500 ms for each load of 100 tokens."""
    found = break_even(cost(1e6, latency_s=0.5, loads=10, tokens=1000), speed(1000))
    assert found.verdict is TierVerdict.SLOWER
    assert found.pays_from_tokens == pytest.approx(500, rel=0.01)


@given(st.floats(10, 1e7), st.floats(0, 2), st.floats(10, 1e6), st.floats(1, 1e6))
def test_loading_wins_exactly_above_the_length_from_which_it_pays(
    tokens_per_s: float, latency_s: float, computed_per_s: float, tokens: float
) -> None:
    found = break_even(cost(tokens_per_s, latency_s=latency_s), speed(computed_per_s))
    saved_s = tokens / computed_per_s - cost(tokens_per_s, latency_s=latency_s).seconds(tokens)
    assume(abs(saved_s) > 1e-9 * tokens)
    pays = found.pays_from_tokens is not None and tokens > found.pays_from_tokens
    assert pays == (saved_s > 0)


def measured(ratio: float, *, loads: int = 10, tokens: float = 10_000) -> BreakEven:
    verdict = TierVerdict.PAYS if ratio > 1 else TierVerdict.SLOWER
    return BreakEven(verdict=verdict, ratio=ratio, loads=loads, loaded_tokens=tokens)


UNKNOWN = BreakEven(verdict=TierVerdict.NOT_MEASURED)


def test_a_slow_tier_is_switched_off_and_tried_again() -> None:
    off = decide(SwitchState(), measured(0.5), rules=RULES, at=50)
    assert (off.phase, off.retest_at) == (SwitchPhase.OFF, 150)
    assert not off.wanted
    assert decide(off, measured(0.5), rules=RULES, at=149) == off
    trial = decide(off, measured(0.5), rules=RULES, at=150)
    assert trial.phase is SwitchPhase.TRIAL
    assert trial.wanted


def test_a_trial_ends_in_on_or_in_a_longer_pause() -> None:
    trial = SwitchState(phase=SwitchPhase.TRIAL)
    assert decide(trial, measured(2.0), rules=RULES, at=0) == SwitchState()
    off = decide(trial, measured(0.5), rules=RULES, at=0)
    assert (off.phase, off.retest_at, off.failed_trials) == (SwitchPhase.OFF, 200, 1)
    for failed in range(20):
        again = SwitchState(phase=SwitchPhase.TRIAL, failed_trials=failed)
        assert decide(again, measured(0.5), rules=RULES, at=0).retest_at <= 1000


def test_a_trial_waits_for_loads_however_long() -> None:
    trial = SwitchState(phase=SwitchPhase.TRIAL)
    assert decide(trial, UNKNOWN, rules=RULES, at=1e9) == trial


@pytest.mark.parametrize(
    "found",
    [UNKNOWN, measured(0.1, loads=3), measured(0.1, tokens=1000), measured(0.96), measured(1.05)],
)
def test_little_evidence_or_a_near_draw_switches_nothing(found: BreakEven) -> None:
    assert decide(SwitchState(), found, rules=RULES, at=0) == SwitchState()


@given(st.lists(st.floats(0.96, 50), max_size=50))
def test_a_tier_that_never_falls_clearly_behind_stays_on(ratios: list[float]) -> None:
    state = SwitchState()
    for at, ratio in enumerate(ratios):
        state = decide(state, measured(ratio), rules=RULES, at=at)
    assert state == SwitchState()


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0.1, 500)), max_size=80))
def test_time_off_is_bounded_and_evidence_alone_switches(
    steps: list[tuple[float, float]],
) -> None:
    state, at = SwitchState(), 0.0
    for ratio, pause_s in steps:
        at += pause_s
        after = decide(state, measured(ratio), rules=RULES, at=at)
        if after.phase is SwitchPhase.OFF and state.phase is not SwitchPhase.OFF:
            assert ratio < RULES.on_above
            assert 0 < after.retest_at - at <= RULES.longest_retest_s
        if state.phase is SwitchPhase.OFF and after.phase is not SwitchPhase.OFF:
            assert at >= state.retest_at
        state = after


def test_rules_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="off_below"):
        SwitchRules(off_below=1.2, on_above=1.1)


def test_a_load_that_took_no_time_pays_always() -> None:
    free = LoadCost(latency_s=0, s_per_token=0, loads=5, tokens=5000)
    found = break_even(free, speed(1000))
    assert found.verdict is TierVerdict.PAYS
    assert found.pays_from_tokens == 0
    assert found.load_tokens_per_s == math.inf


def test_loads_that_brought_nothing_are_evidence_enough() -> None:
    late = LoadCost(latency_s=0.6, s_per_token=0, loads=4, tokens=0)
    found = break_even(late, speed(1000))
    assert (found.verdict, found.ratio) == (TierVerdict.SLOWER, 0)
    assert decide(SwitchState(), found, rules=RULES, at=0).phase is SwitchPhase.OFF
    few = break_even(LoadCost(latency_s=0.6, s_per_token=0, loads=3, tokens=0), speed(1000))
    assert decide(SwitchState(), few, rules=RULES, at=0) == SwitchState()
