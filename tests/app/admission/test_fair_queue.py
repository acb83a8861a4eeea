"""Turns are fair: by weight between tenants, by class between priorities, and nobody starves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.admission.fair_queue import FairQueue, Waiter
from app.callers import Priority

TENANTS = ("a", "b", "c", "d")


@given(
    weights=st.fixed_dictionaries({t: st.sampled_from([0.5, 1.0, 2.0, 4.0]) for t in TENANTS}),
    costs=st.lists(st.integers(1, 1000), min_size=80, max_size=80),
    turns=st.integers(10, 60),
)
def test_tenants_that_all_wait_get_tokens_by_their_weights(
    weights: dict[str, float], costs: list[int], turns: int
) -> None:
    """However dear the requests are, nobody is more than a request's cost ahead of another."""
    queue = FairQueue()
    for number, cost in enumerate(costs):
        tenant = TENANTS[number % len(TENANTS)]
        queue.add(Waiter(tenant, cost, weight=weights[tenant]))
    got: Counter[str] = Counter()
    for _ in range(turns):
        waiter = queue.take()
        assert waiter is not None
        got[waiter.tenant] += int(waiter.cost)
        if any(queue.waiting(tenant) == 0 for tenant in TENANTS):
            break
        shares = {tenant: got[tenant] / weights[tenant] for tenant in TENANTS}
        assert max(shares.values()) - min(shares.values()) <= 1000 / min(weights.values())


@given(st.lists(st.tuples(st.sampled_from(TENANTS), st.sampled_from(Priority)), max_size=80))
def test_each_request_has_its_turn_once_and_in_its_line(
    asked: list[tuple[str, Priority]],
) -> None:
    queue = FairQueue()
    waiters = [Waiter(tenant, 1, priority=priority) for tenant, priority in asked]
    for waiter in waiters:
        queue.add(waiter)
    assert queue.depth == len(waiters)
    taken: list[Waiter] = []
    while (waiter := queue.take()) is not None:
        taken.append(waiter)
    assert queue.depth == 0
    assert {id(w) for w in taken} == {id(w) for w in waiters}
    assert len(taken) == len(waiters)
    for line in {(w.tenant, w.priority) for w in waiters}:
        order = [w for w in waiters if (w.tenant, w.priority) == line]
        assert [w for w in taken if (w.tenant, w.priority) == line] == order


@given(
    asked=st.lists(st.sampled_from(TENANTS), min_size=1, max_size=60),
    left=st.sets(st.integers(0, 59)),
)
def test_who_has_left_gets_no_turn(asked: list[str], left: set[int]) -> None:
    queue = FairQueue()
    waiters = [Waiter(tenant, 1) for tenant in asked]
    for waiter in waiters:
        queue.add(waiter)
    for number in left & set(range(len(waiters))):
        queue.remove(waiters[number])
        queue.remove(waiters[number])
    stayed = [w for n, w in enumerate(waiters) if n not in left]
    assert queue.depth == len(stayed)
    taken = []
    while (waiter := queue.take()) is not None:
        taken.append(waiter)
    assert {id(w) for w in taken} == {id(w) for w in stayed}


def test_a_more_urgent_class_goes_first_and_the_least_urgent_is_not_forgotten() -> None:
    queue = FairQueue()
    for _ in range(100):
        queue.add(Waiter("busy", 1, priority=Priority.INTERACTIVE))
    queue.add(Waiter("late", 1, priority=Priority.BACKGROUND))
    order = [waiter.tenant for _ in range(101) if (waiter := queue.take())]
    assert order[:15] == ["busy"] * 15
    assert order.index("late") == 15


def test_who_was_away_does_not_save_up_turns() -> None:
    queue = FairQueue()
    for _ in range(60):
        queue.add(Waiter("busy", 100))
    for _ in range(50):
        queue.take()
    for _ in range(10):
        queue.add(Waiter("back", 100))
    first = Counter(waiter.tenant for _ in range(10) if (waiter := queue.take()))
    assert abs(first["busy"] - first["back"]) <= 1


def test_who_used_more_than_was_thought_waits_for_it() -> None:
    queue = FairQueue()
    for _ in range(20):
        queue.add(Waiter("dear", 10))
        queue.add(Waiter("cheap", 10))
    assert queue.take() is not None
    queue.clocks.charge("dear", 50, 1.0)
    order = [waiter.tenant for _ in range(6) if (waiter := queue.take())]
    assert order.count("cheap") >= 5


def test_what_a_tenant_gets_elsewhere_counts_and_is_forgotten() -> None:
    queue = FairQueue()
    for _ in range(20):
        queue.add(Waiter("here", 10))
        queue.add(Waiter("both", 10))
    queue.clocks.leads("both", 100, 1.0)
    order = [waiter.tenant for _ in range(20) if (waiter := queue.take())]
    assert order[:9] == ["here"] * 9
    assert order.count("both") >= 4


def test_once_there_is_room_for_all_nothing_is_remembered() -> None:
    queue = FairQueue()
    for number in range(1000):
        queue.add(Waiter(f"tenant-{number}", 1))
    while queue.take() is not None:
        pass
    assert len(queue.clocks) == 1000
    queue.passed()
    assert len(queue.clocks) == 0
