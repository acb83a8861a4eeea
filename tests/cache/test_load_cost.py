"""What a load costs, from a tier's counters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.load_cost import LoadCost, LoadTotals, LoadTrack

PER_TOKEN = 1000.0


def tracked(
    loads: list[int], *, latency_s: float, tokens_per_s: float, counted: bool = True
) -> LoadTrack:
    """A tier that loaded so many tokens each time, looked at after each."""
    track = LoadTrack().advance(LoadTotals(loads=0 if counted else None, bytes=0, seconds=0))
    total, seconds = 0, 0.0
    for number, tokens in enumerate(loads, start=1):
        total += round(tokens * PER_TOKEN)
        seconds += latency_s + tokens / tokens_per_s
        count = number if counted else None
        track = track.advance(LoadTotals(loads=count, bytes=total, seconds=seconds))
    return track


def test_nothing_loaded_is_not_known() -> None:
    assert LoadTrack().cost(bytes_per_token=PER_TOKEN) is None
    idle = LoadTrack().advance(LoadTotals(loads=5, bytes=100, seconds=1))
    assert idle.advance(LoadTotals(loads=5, bytes=100, seconds=1)).cost(bytes_per_token=1) is None


@given(
    st.lists(st.integers(64, 10_000), min_size=3, max_size=16),
    st.floats(0, 1),
    st.floats(100, 1e6),
)
def test_loads_of_different_sizes_tell_latency_from_speed(
    loads: list[int], latency_s: float, tokens_per_s: float
) -> None:
    cost = tracked(loads, latency_s=latency_s, tokens_per_s=tokens_per_s).cost(
        bytes_per_token=PER_TOKEN
    )
    assert cost is not None
    spent = sum(latency_s + tokens / tokens_per_s for tokens in loads)
    assert cost.loads * cost.latency_s + cost.tokens * cost.s_per_token == pytest.approx(
        spent, rel=0.01
    )
    if max(loads) > 4 * min(loads):
        assert cost.latency_s == pytest.approx(latency_s, abs=1e-3 + 0.02 * latency_s)


def test_loads_of_one_size_put_all_on_the_token() -> None:
    cost = tracked([640] * 8, latency_s=0.1, tokens_per_s=6400).cost(bytes_per_token=PER_TOKEN)
    assert cost is not None
    assert cost.latency_s == 0
    assert cost.seconds(640) == pytest.approx(0.2)


def test_loads_that_are_not_counted_have_no_latency() -> None:
    track = tracked([64, 6400], latency_s=0.1, tokens_per_s=6400, counted=False)
    cost = track.cost(bytes_per_token=PER_TOKEN)
    assert cost is not None
    assert (cost.loads, cost.latency_s) == (0, 0)
    assert cost.tokens == 6464


def test_a_server_that_restarted_is_followed() -> None:
    track = tracked([640], latency_s=0, tokens_per_s=1000)
    track = track.advance(LoadTotals(loads=0, bytes=0, seconds=0))
    track = track.advance(LoadTotals(loads=1, bytes=640_000, seconds=0.64))
    cost = track.cost(bytes_per_token=PER_TOKEN)
    assert cost is not None
    assert cost.tokens == 1280
    assert cost.tokens_per_s == pytest.approx(1000)


def test_forgotten_evidence_leaves_the_counters_comparable() -> None:
    track = tracked([640], latency_s=0, tokens_per_s=1000).forgotten()
    assert track.cost(bytes_per_token=PER_TOKEN) is None
    track = track.advance(LoadTotals(loads=2, bytes=1_280_000, seconds=0.7))
    cost = track.cost(bytes_per_token=PER_TOKEN)
    assert cost is not None
    assert cost.tokens == 640


def test_old_intervals_leave() -> None:
    slow = tracked([640] * 40, latency_s=0, tokens_per_s=100)
    last = slow.last
    assert last is not None
    total, seconds = last.bytes, last.seconds
    for _ in range(16):
        total, seconds = total + 640_000, seconds + 0.064
        slow = slow.advance(LoadTotals(loads=41, bytes=total, seconds=seconds))
    cost = slow.cost(bytes_per_token=PER_TOKEN)
    assert cost is not None
    assert cost.tokens_per_s == pytest.approx(10_000)


def test_two_loads_one_after_the_other_take_both_times() -> None:
    first = LoadCost(latency_s=0.1, s_per_token=0.001, loads=3, tokens=300)
    second = LoadCost(latency_s=0.2, s_per_token=0.002, loads=0, tokens=900)
    both = first.after(second)
    assert both.seconds(100) == pytest.approx(first.seconds(100) + second.seconds(100))
    assert (both.loads, both.tokens) == (3, 300)


def test_tokens_of_no_size_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        LoadTrack().cost(bytes_per_token=0)


def test_late_loads_take_their_time_though_they_brought_nothing() -> None:
    late = LoadTrack().advance(LoadTotals(loads=0, bytes=0, seconds=0))
    late = late.advance(LoadTotals(loads=4, bytes=0, seconds=2.4))
    cost = late.cost(bytes_per_token=PER_TOKEN)
    assert cost == LoadCost(latency_s=0.6, s_per_token=0, loads=4, tokens=0)

    both = late.advance(LoadTotals(loads=5, bytes=640_000, seconds=2.5)).cost(
        bytes_per_token=PER_TOKEN
    )
    assert both is not None
    assert both.loads * both.latency_s + both.tokens * both.s_per_token == pytest.approx(2.5)
    assert both.seconds(both.tokens / both.loads) == pytest.approx(0.5)
