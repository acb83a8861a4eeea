"""The statistics find what is there, and rarely what isn't."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.compare.comparison import NO_DIFFERENCE, verdict_of
from bench.compare.paired import Scale, compare_paired, interval_of_rounds
from tests.bench.compare.run_making import noisy_rounds

WORDS = ("faster", "slower")


def _verdict(seed: int, *, factor: float, rounds: int = 4, run_spread: float = 0.05) -> str:
    source = np.random.default_rng(seed)
    a = noisy_rounds(source, rounds=rounds, requests=60, run_spread=run_spread)
    b = noisy_rounds(source, rounds=rounds, requests=60, run_spread=run_spread, factor=factor)
    return verdict_of(compare_paired(a, b, seed=seed), WORDS).word


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, 4])
def test_a_against_a_finds_something_in_at_most_one_of_twenty(rounds: int) -> None:
    """Whole runs vary here too, which an interval over requests alone takes for a difference."""
    found = sum(_verdict(seed, factor=1.0, rounds=rounds) != NO_DIFFERENCE for seed in range(200))
    assert found <= 0.05 * 200 + 4  # 2 % of luck above the stated 5 %


@pytest.mark.slow
def test_one_round_finds_something_in_about_one_of_twenty_when_runs_do_not_vary() -> None:
    found = sum(
        _verdict(seed, factor=1.0, rounds=1, run_spread=0.0) != NO_DIFFERENCE for seed in range(200)
    )
    assert found <= 0.05 * 200 + 8


@pytest.mark.slow
def test_a_planted_shift_is_found() -> None:
    found = [_verdict(seed, factor=0.6) for seed in range(40)]
    assert found.count("faster") >= 38
    assert "slower" not in found


def test_the_interval_holds_the_planted_difference() -> None:
    held = 0
    for seed in range(100):
        source = np.random.default_rng(seed)
        a = [{f"{n}": float(source.exponential(0.1)) for n in range(80)}]
        b = [{id: value + 0.05 + 0.02 * source.standard_normal() for id, value in a[0].items()}]
        paired = compare_paired(a, b, scale="difference", seed=seed)
        assert paired is not None
        held += paired.over_requests.low <= 0.05 <= paired.over_requests.high
    assert held >= 88


@given(
    values=st.lists(st.floats(0.001, 10), min_size=2, max_size=30),
    change=st.floats(0.1, 5),
    rounds=st.integers(1, 4),
    scale=st.sampled_from(["ratio", "difference"]),
)
@settings(max_examples=40, deadline=None)
def test_what_every_request_gained_is_told_exactly(
    values: list[float], change: float, rounds: int, scale: Scale
) -> None:
    """A factor on the scale of ratios, so many more on that of differences."""
    a = [{f"{n}": value for n, value in enumerate(values)}] * rounds
    b = [
        {id: v * change if scale == "ratio" else v + change for id, v in each.items()} for each in a
    ]
    paired = compare_paired(a, b, scale=scale)
    assert paired is not None
    effect = math.log(change) if scale == "ratio" else change
    assert paired.effect == pytest.approx(effect, abs=1e-9)
    assert paired.over_requests.low == pytest.approx(effect, abs=1e-9)
    assert paired.noise == (None if rounds == 1 else 0.0)
    assert (paired.over_rounds is None) == (rounds == 1)


@given(values=st.dictionaries(st.text(max_size=3), st.floats(0.001, 10), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_exchanged_arms_give_the_opposite(values: dict[str, float]) -> None:
    other = {id: value * 1.5 for id, value in values.items()}
    one, two = compare_paired([values], [other]), compare_paired([other], [values])
    assert one is not None
    assert two is not None
    assert one.difference == pytest.approx(-two.difference)
    assert one.effect == pytest.approx(-two.effect)


def test_turns_of_one_session_count_as_one() -> None:
    """Twenty turns that all say the same are no more evidence than the two sessions they are of."""
    a = [{f"{n}": 0.1 for n in range(20)}]
    b = [{f"{n}": 0.1 + (0.05 if n < 10 else -0.01) for n in range(20)}]
    clusters = {f"{n}": "one" if n < 10 else "two" for n in range(20)}
    alone, together = compare_paired(a, b), compare_paired(a, b, clusters=clusters)
    assert alone is not None
    assert together is not None
    assert together.over_requests.low < 0 < together.over_requests.high
    assert alone.over_requests.high - alone.over_requests.low <= (
        together.over_requests.high - together.over_requests.low
    )


def test_requests_known_in_one_arm_only_are_counted_not_used() -> None:
    paired = compare_paired([{"1": 0.1, "2": 0.2}], [{"1": 0.3, "3": 9.0}])
    assert paired is not None
    assert (paired.requests, paired.missing) == (1, 2)
    assert paired.difference == pytest.approx(0.2)


def test_nothing_in_common_is_no_comparison() -> None:
    assert compare_paired([{"1": 0.1}], [{"2": 0.1}]) is None


def test_zero_has_a_difference_and_no_ratio() -> None:
    assert compare_paired([{"1": 0.0}], [{"1": 5.0}]) is None
    paired = compare_paired([{"1": 0.0}], [{"1": 5.0}], scale="difference")
    assert paired is not None
    assert paired.effect == 5.0


def test_a_machine_that_slows_whole_rounds_hides_no_large_factor() -> None:
    """Round 2 was nearly twice as slow for both; B took a tenth of A's time in each."""
    a = [{f"{n}": 2.0 + n / 10 for n in range(20)}, {f"{n}": 3.4 + n / 10 for n in range(20)}]
    b = [{id: 0.1 * value for id, value in each.items()} for each in a]
    assert verdict_of(compare_paired(a, b), WORDS).word == "faster"


def test_rounds_interval_is_students() -> None:
    interval = interval_of_rounds([1.0, 3.0])
    assert interval is not None
    assert interval.high - 2.0 == pytest.approx(12.706, rel=1e-3)
    assert interval_of_rounds([1.0]) is None


def test_a_difference_below_the_noise_is_not_shown() -> None:
    """Requests agree, but A differed from itself by more than B differs from it."""
    a = [{f"{n}": 0.100 for n in range(50)}, {f"{n}": 0.130 for n in range(50)}]
    b = [{f"{n}": 0.110 for n in range(50)}, {f"{n}": 0.140 for n in range(50)}]
    verdict = verdict_of(compare_paired(a, b), WORDS)
    assert verdict.word == NO_DIFFERENCE
    assert verdict.why == "within the noise of A against A"
