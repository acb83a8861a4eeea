"""One replica's load, between two looks at it."""

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given

from app.fleet.load import LoadMeter
from cache.engine_loads import EngineLoads

LOADS = EngineLoads(
    uncached_tokens=0,
    busy_s=0.0,
    pool_tokens=1000,
    used_tokens=250,
    running_requests=2,
    waiting_requests=1,
    kv_pool_bytes=None,
    weight_bytes=None,
    rank_pool_tokens=None,
    waiting_uncached_tokens=70,
)


def unseen(meter: LoadMeter) -> int:
    return meter.load(tokens_per_s=None).unseen_tokens


def test_what_was_sent_before_a_look_is_in_its_count() -> None:
    meter = LoadMeter()
    meter.begun("a", tokens=70, at=1.0)
    meter.begun("b", tokens=10, at=3.0)
    meter.looked(LOADS, asked_at=2.0)
    load = meter.load(tokens_per_s=5000.0)
    assert (load.waiting_uncached_tokens, load.unseen_tokens) == (70, 10)
    assert (load.running, load.waiting, load.pool_used) == (2, 1, 0.25)
    assert load.prefill_tokens_per_s == 5000.0


def test_what_has_answered_has_nothing_to_compute_any_more() -> None:
    meter = LoadMeter()
    meter.begun("a", tokens=100, at=1.0)
    meter.begun("b", tokens=10, at=1.0)
    meter.first_token("a")
    assert (unseen(meter), meter.in_flight) == (10, 2)
    meter.ended("a")
    meter.ended("b")
    assert (unseen(meter), meter.in_flight) == (0, 0)


def test_where_the_queue_is_not_told_all_unanswered_requests_count() -> None:
    meter = LoadMeter()
    meter.begun("a", tokens=100, at=1.0)
    meter.looked(LOADS, asked_at=2.0)
    assert unseen(meter) == 30
    meter.looked(replace(LOADS, waiting_uncached_tokens=None), asked_at=3.0)
    assert unseen(meter) == 100
    meter.looked(None, asked_at=4.0)
    assert unseen(meter) == 100
    assert meter.load(tokens_per_s=None).running is None


def test_an_engine_that_was_started_anew_has_nothing_to_do() -> None:
    meter = LoadMeter()
    meter.begun("a", tokens=100, at=1.0)
    meter.looked(LOADS, asked_at=2.0)
    meter.restarted()
    assert meter.load(tokens_per_s=None).waiting_uncached_tokens is None
    assert (unseen(meter), meter.in_flight) == (0, 1)  # whose end is still to come


def test_a_long_prompt_that_is_being_computed_is_no_more_in_the_queue_and_counts() -> None:
    meter = LoadMeter()
    meter.begun("long", tokens=40_000, at=1.0)
    meter.begun("short", tokens=70, at=1.1)
    meter.looked(LOADS, asked_at=2.0)
    assert unseen(meter) == 40_000
    meter.first_token("long")
    assert unseen(meter) == 0


def test_without_a_first_token_to_be_seen_time_tells_that_a_prompt_is_computed() -> None:
    meter = LoadMeter()
    idle = replace(LOADS, waiting_uncached_tokens=0)
    meter.looked(idle, asked_at=0.0, tokens_per_s=1000.0)
    meter.begun("a", tokens=1000, at=1.0, streams=False)
    meter.begun("b", tokens=2000, at=1.0, streams=False)
    for asked_at, left in ((2.9, 3000), (3.0, 2000), (6.9, 2000), (7.0, 0)):
        meter.looked(idle, asked_at=asked_at, tokens_per_s=1000.0)
        assert unseen(meter) == left
    assert meter.in_flight == 2


def test_what_others_have_unanswered_counts_unless_they_are_silent() -> None:
    meter = LoadMeter()
    meter.begun("a", tokens=100, at=1.0)
    meter.heard_of_others(in_flight=1, unanswered_tokens=500, at=1.0)
    meter.looked(LOADS, asked_at=1.5)
    assert unseen(meter) == 600 - 70
    meter.looked(LOADS, asked_at=5.0)
    assert unseen(meter) == 100 - 70


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=12),
    computed=st.integers(0, 12),
    seen=st.integers(0, 12),
    strangers=st.integers(0, 1000),
)
def test_all_work_counts_once(sizes: list[int], computed: int, seen: int, strangers: int) -> None:
    """First come, first served: some have answered, one is computed, others wait or are new."""
    meter, left = LoadMeter(), sizes[computed:]
    for number, tokens in enumerate(sizes):
        meter.begun(str(number), tokens=tokens, at=float(number))
    for number in range(min(computed, len(sizes))):
        meter.first_token(str(number))
    in_queue = sizes[computed + 1 : computed + 1 + seen]
    asked_at = float(computed + seen)
    waiting = sum(in_queue) + strangers
    meter.looked(replace(LOADS, waiting_uncached_tokens=waiting), asked_at=asked_at)
    load = meter.load(tokens_per_s=None)
    assert load.waiting_uncached_tokens is not None
    told = load.waiting_uncached_tokens + load.unseen_tokens
    # What strangers have there may hide the one that is being computed, and nothing else.
    assert sum(left) <= told <= sum(left) + strangers
    assert load.unseen_tokens >= sum(sizes[computed + 1 + seen :])


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["begun", "first_token", "ended", "looked", "silent", "restarted"]),
            st.integers(0, 5),
        ),
        max_size=40,
    )
)
def test_no_order_of_things_leaves_anything_over(steps: list[tuple[str, int]]) -> None:
    meter, flying, names = LoadMeter(), set[str](), 0
    for at, (step, which) in enumerate(steps):
        some = sorted(flying)[which % len(flying)] if flying else None
        match step:
            case "begun":
                names += 1
                flying.add(f"{names:03}")
                meter.begun(f"{names:03}", tokens=which, at=float(at))
            case "first_token" if some:
                meter.first_token(some)
            case "ended" if some:
                flying.discard(some)
                meter.ended(some)
            case "looked":
                meter.looked(LOADS, asked_at=at - 0.5)
            case "silent":
                meter.looked(None, asked_at=at - 0.5)
            case "restarted":
                meter.restarted()
        assert unseen(meter) >= 0
        assert meter.in_flight == len(flying)
    for name in flying:
        meter.ended(name)
    assert (unseen(meter), meter.in_flight) == (0, 0)


def test_what_other_gateways_sent_counts_beside_what_the_engine_told() -> None:
    meter = LoadMeter()
    meter.begun("a", tokens=100, at=1.0)
    meter.heard_of_others(in_flight=2, unanswered_tokens=700, at=1.5)
    assert (meter.in_flight, meter.in_flight_everywhere, meter.unanswered_tokens) == (1, 3, 100)
    assert meter.load(tokens_per_s=None).unseen_tokens == 800
    meter.looked(LOADS, asked_at=2.0)  # 70 of them wait there
    assert meter.load(tokens_per_s=None).unseen_tokens == 730
    meter.ended("a")
    assert meter.is_busy  # elsewhere
    meter.heard_of_others(in_flight=0, unanswered_tokens=0, at=2.2)
    assert not meter.is_busy
    assert meter.load(tokens_per_s=None).unseen_tokens == 0
