"""The breaker: when a failing replica is left alone, and when it is tried again."""

from hypothesis import given
from hypothesis import strategies as st

from app.fleet.breaker import Breaker, BreakerState

LONGEST_S = 30.0


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(failures=3, open_s=2.0, longest_open_s=LONGEST_S)
    for _ in range(3):
        breaker.failed(at)
    return breaker


def test_a_few_failures_change_nothing() -> None:
    breaker = Breaker(failures=3)
    breaker.failed(0.0)
    breaker.failed(0.0)
    assert breaker.allows(0.0)
    assert (breaker.state(0.0), breaker.failures) == (BreakerState.CLOSED, 2)


def test_a_success_between_starts_the_row_anew() -> None:
    breaker = Breaker(failures=2)
    for now in range(10):
        breaker.failed(now)
        breaker.succeeded(now)
    assert breaker.allows(10.0)


def test_failures_in_a_row_open_it_for_a_while() -> None:
    breaker = opened(at=100.0)
    assert not breaker.allows(101.9)
    assert breaker.retry_in_s(101.5) == 0.5
    assert breaker.state(102.0) is BreakerState.HALF_OPEN
    assert breaker.allows(102.0)


def test_half_open_lets_one_request_through() -> None:
    breaker = opened()
    assert breaker.allows(2.0)
    assert breaker.allows(2.0), "asking takes nothing"
    breaker.began(2.0)
    assert not breaker.allows(2.1)
    assert breaker.retry_in_s(2.1) > 0
    breaker.succeeded(2.2)
    assert breaker.state(2.2) is BreakerState.CLOSED
    assert breaker.allows(2.2)


def test_each_probe_that_fails_doubles_the_pause_up_to_the_longest() -> None:
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(6):
        pauses.append(breaker.retry_in_s(now))
        now += pauses[-1]
        breaker.began(now)
        breaker.failed(now)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_success_makes_the_next_pause_short_again() -> None:
    breaker = opened()
    breaker.began(2.0)
    breaker.failed(2.0)
    breaker.began(6.0)
    breaker.succeeded(6.0)
    for _ in range(3):
        breaker.failed(10.0)
    assert breaker.retry_in_s(10.0) == 2.0


def test_requests_sent_before_it_opened_change_nothing_while_it_is_open() -> None:
    breaker = opened()
    breaker.failed(1.0)
    breaker.succeeded(1.0)
    assert breaker.retry_in_s(1.0) == 1.0


def test_a_probe_whose_client_went_away_leaves_room_for_another() -> None:
    breaker = opened()
    breaker.began(2.0)
    breaker.abandoned()
    assert breaker.allows(2.0)


def test_a_probe_that_never_says_anything_is_taken_for_lost() -> None:
    breaker = opened()
    breaker.began(2.0)
    assert not breaker.allows(2.0 + LONGEST_S - 0.1)
    assert breaker.allows(2.0 + LONGEST_S)


def test_another_process_at_the_same_place_starts_with_nothing_against_it() -> None:
    breaker = opened()
    breaker.reset()
    assert (breaker.allows(0.0), breaker.failures) == (True, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["began", "succeeded", "failed", "abandoned"]),
            st.floats(0.0, 20.0, allow_nan=False),
        )
    )
)
def test_whatever_happens_it_allows_a_request_again_within_its_longest_pause(
    events: list[tuple[str, float]],
) -> None:
    breaker, now = Breaker(failures=2, open_s=1.0, longest_open_s=8.0), 0.0
    for event, passed_s in events:
        now += passed_s
        match event:
            case "abandoned":
                breaker.abandoned()
            case _:
                getattr(breaker, event)(now)
        assert breaker.allows(now) == (breaker.retry_in_s(now) == 0.0)
        # Open for the longest pause, and then a probe that says nothing for as long.
        assert breaker.retry_in_s(now) <= 8.0
    assert breaker.allows(now + 2 * 8.0)
