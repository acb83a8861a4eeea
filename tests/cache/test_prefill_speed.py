"""Prefill speed from two counters."""

from hypothesis import given
from hypothesis import strategies as st

from cache.engine_loads import EngineLoads
from cache.prefill_speed import LEAST_INTERVAL_TOKENS, LEAST_TOKENS, PrefillTrack


def loads(tokens: int, seconds: float) -> EngineLoads:
    return EngineLoads(
        uncached_tokens=tokens,
        busy_s=seconds,
        pool_tokens=0,
        used_tokens=0,
        running_requests=0,
        waiting_requests=0,
        kv_pool_bytes=None,
        weight_bytes=None,
        rank_pool_tokens=None,
    )


def tracked(steps: list[tuple[int, float]]) -> PrefillTrack:
    track = PrefillTrack().advance(loads(0, 0))
    tokens, seconds = 0, 0.0
    for step_tokens, step_seconds in steps:
        tokens, seconds = tokens + step_tokens, seconds + step_seconds
        track = track.advance(loads(tokens, seconds))
    return track


def test_unknown_until_enough_was_computed() -> None:
    assert PrefillTrack().speed is None
    assert tracked([(LEAST_TOKENS - 1, 1.0)]).speed is None
    known = tracked([(LEAST_TOKENS, 2.0)]).speed
    assert known is not None
    assert known.tokens_per_s == LEAST_TOKENS / 2
    assert known.tokens == LEAST_TOKENS


def test_what_was_computed_before_the_first_look_is_not_counted() -> None:
    track = PrefillTrack().advance(loads(50_000, 1.0)).advance(loads(52_000, 3.0))
    assert track.speed is not None
    assert track.speed.tokens_per_s == 1000


def test_tails_of_re_used_prompts_do_not_slow_it() -> None:
    """A batch of 30 tokens takes as long as one of 300: that is overhead, not speed."""
    track = tracked([(2000, 2.0), *[(30, 0.3)] * 40])
    assert track.speed is not None
    assert track.speed.tokens_per_s == 1000


def test_one_slow_moment_does_not_pull_it() -> None:
    track = tracked([(2000, 2.0), (2000, 2.0), (2000, 60.0)])
    assert track.speed is not None
    assert track.speed.tokens_per_s == 1000


def test_an_engine_that_restarted_is_followed() -> None:
    track = tracked([(2000, 2.0)]).advance(loads(100, 0.5)).advance(loads(2100, 1.5))
    assert track.speed is not None
    assert track.speed.tokens == 4000


def test_after_a_failed_look_nothing_is_compared() -> None:
    track = tracked([(2000, 2.0)]).away().advance(loads(10_000, 2.1))
    assert track.speed is not None
    assert track.speed.tokens == 2000


@given(
    st.lists(
        st.tuples(st.integers(LEAST_INTERVAL_TOKENS, 20_000), st.floats(0.001, 100)),
        min_size=1,
        max_size=30,
    )
)
def test_it_lies_between_the_slowest_and_the_fastest(steps: list[tuple[int, float]]) -> None:
    speed = tracked(steps).speed
    rates = [tokens / seconds for tokens, seconds in steps]
    if speed is not None:
        assert min(rates) * 0.999 <= speed.tokens_per_s <= max(rates) * 1.001


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 100)), max_size=200))
def test_any_readings_give_a_positive_speed_or_none(readings: list[tuple[int, float]]) -> None:
    track = PrefillTrack()
    for tokens, seconds in readings:
        track = track.advance(loads(tokens, seconds))
    assert track.speed is None or track.speed.tokens_per_s > 0
