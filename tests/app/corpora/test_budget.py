"""Which corpora have a place in the engine's memory, and when one is tried again."""

from hypothesis import given
from hypothesis import strategies as st

from app.corpora.budget import Backoff, Candidate, Demand, choose_kept

candidates = st.lists(
    st.builds(
        Candidate,
        name=st.uuids().map(str),
        tokens=st.integers(0, 1000),
        priority=st.integers(-2, 2),
        demand=st.floats(0, 100),
        kept=st.booleans(),
        settling=st.booleans(),
    ),
    unique_by=lambda candidate: candidate.name,
)


@given(candidates, st.integers(0, 3000))
def test_those_that_are_kept_fit(them: list[Candidate], budget: int) -> None:
    kept = choose_kept(them, budget_tokens=budget)
    assert sum(c.tokens for c in them if c.name in kept) <= budget


@given(candidates, st.integers(0, 3000))
def test_one_that_is_left_out_would_not_fit_beside_those_before_it(
    them: list[Candidate], budget: int
) -> None:
    kept = choose_kept(them, budget_tokens=budget)
    left = budget - sum(c.tokens for c in them if c.name in kept)
    assert all(c.tokens > left for c in them if c.name not in kept)


@given(candidates, st.integers(0, 3000), st.randoms())
def test_the_order_they_come_in_says_nothing(
    them: list[Candidate], budget: int, random: "st.DataObject"
) -> None:
    shuffled = them[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_kept(shuffled, budget_tokens=budget) == choose_kept(them, budget_tokens=budget)


def test_a_higher_priority_goes_before_any_demand() -> None:
    them = [
        Candidate(name="asked", tokens=80, demand=100, kept=True),
        Candidate(name="important", tokens=80, priority=1),
    ]
    assert choose_kept(them, budget_tokens=100) == {"important"}


def test_an_incumbent_stays_unless_another_is_asked_for_much_more() -> None:
    def kept(rival: float, *, settling: bool = False) -> frozenset[str]:
        them = [
            Candidate(name="here", tokens=80, demand=10, kept=True, settling=settling),
            Candidate(name="rival", tokens=80, demand=rival),
        ]
        return choose_kept(them, budget_tokens=100)

    assert kept(14) == {"here"}
    assert kept(16) == {"rival"}
    assert kept(1000, settling=True) == {"here"}


def test_a_small_one_gets_the_room_that_a_large_one_can_not_use() -> None:
    them = [
        Candidate(name="first", tokens=60, demand=3),
        Candidate(name="large", tokens=60, demand=2),
        Candidate(name="small", tokens=40, demand=1),
    ]
    assert choose_kept(them, budget_tokens=100) == {"first", "small"}


def test_demand_halves_with_each_half_life() -> None:
    demand = Demand(half_life_s=10).asked(100).asked(110)
    assert demand.level(110) == 1.5
    assert demand.level(120) == 0.75


def test_each_loss_soon_after_a_warming_doubles_the_wait() -> None:
    backoff, now, waits = Backoff(), 0.0, []
    for _ in range(12):
        backoff = backoff.warmed(now).lost(now + 1)
        waits.append(backoff.not_before - (now + 1))
        now = backoff.not_before
    assert waits[:4] == [0, 5, 10, 20]
    assert waits[-1] == 600


def test_one_that_stayed_for_long_begins_anew() -> None:
    backoff = Backoff().warmed(0).lost(1).warmed(2).lost(3).warmed(10)
    assert backoff.lost(1000).allows(1000)
