"""Pages of a load that is still in flight are freed by nobody but its end."""

import pytest

from foreword_guard.breaker import Breaker
from foreword_guard.futures import SettledFuture, TransferFuture
from foreword_guard.lookups import AbandonedLookups
from foreword_guard.pages import HeldPages
from foreword_guard.transfer import GuardedClient, GuardedTransfer


class Future:
    """A transfer whose end the test decides."""

    def __init__(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done

    def result(self, timeout: float | None = None) -> bool:
        if not self.done:
            raise TimeoutError
        return True

    def wait_on_stream(self, stream: object, timeout: float | None = None) -> bool:
        return self.result(timeout)

    def retain_reference(self, value: object) -> None: ...


class Allocator:
    """Remembers what was freed."""

    def __init__(self) -> None:
        self.freed: list[object] = []

    def free(self, indices: object) -> None:
        self.freed.append(indices)


class Load:
    def __init__(self, indices: object, future: object) -> None:
        self.device_indices = indices
        self.future = future


class Tier:
    """A transfer context and a client that count what reaches them."""

    def __init__(self, future: object) -> None:
        self.future = future
        self.calls: list[str] = []

    def submit_store(self) -> object:
        self.calls.append("store")
        return self.future

    submit_retrieve = submit_store

    def end_session(self, request_id: str) -> object:
        self.calls.append("end_session")
        return self.future

    def close(self) -> None:
        self.calls.append("close")


def free_during_load(pages: HeldPages, allocator: Allocator, load: Load, other: object) -> None:
    with pages.holding_back(allocator):
        pages.loading(load)
        allocator.free(other)
        allocator.free(load.device_indices)


def test_pages_of_a_late_load_wait_for_its_end_and_others_do_not() -> None:
    pages, allocator, inner = HeldPages(), Allocator(), Future()
    free_during_load(pages, allocator, Load("late", TransferFuture(inner, 0.0, print)), "other")

    assert allocator.freed == ["other"]
    assert pages.release(allocator) == 0
    inner.done = True
    assert pages.release(allocator) == 1
    assert allocator.freed == ["other", "late"]
    assert not pages


def test_pages_of_a_load_that_is_over_are_freed_at_once() -> None:
    pages, allocator = HeldPages(), Allocator()
    free_during_load(pages, allocator, Load("done", SettledFuture(False)), "other")

    assert allocator.freed == ["other", "done"]


def test_pages_come_back_when_the_process_that_wrote_them_is_gone() -> None:
    pages, allocator = HeldPages(), Allocator()
    future = TransferFuture(Future(), 0.0, print)
    free_during_load(pages, allocator, Load("late", future), "other")

    future.abandon()

    assert pages.release(allocator) == 1
    assert future.result() is False


def test_the_allocator_is_itself_again_afterwards() -> None:
    pages, allocator = HeldPages(), Allocator()
    with pytest.raises(RuntimeError), pages.holding_back(allocator):
        raise RuntimeError

    assert "free" not in vars(allocator)


def test_a_late_answer_is_waited_for_only_once() -> None:
    told: list[str] = []
    future = TransferFuture(Future(), 1.0, told.append)
    with pytest.raises(TimeoutError):
        future.wait_on_stream(None, timeout=300)

    assert told == ["a load took more than 1 s"]
    assert future._bounded(300) == 0.0


def test_an_open_breaker_lets_nothing_through() -> None:
    breaker = Breaker(failures=1, retry_s=1, clock=lambda: 0.0)
    tier = Tier(Future())
    transfer = GuardedTransfer(tier, breaker, breaker.failed, 1.0)
    client = GuardedClient(tier, breaker)
    breaker.failed("late")

    assert transfer.submit_store().result() is False
    assert transfer.submit_retrieve().result() is False
    assert client.end_session("r").query()
    assert tier.calls == []


def test_a_transfer_that_raises_counts_as_a_failure() -> None:
    class Broken(Tier):
        def submit_store(self) -> object:
            raise TimeoutError

    breaker = Breaker(failures=1, retry_s=1, clock=lambda: 0.0)
    transfer = GuardedTransfer(Broken(Future()), breaker, breaker.failed, 1.0)

    assert transfer.submit_store().result() is False
    assert not breaker.closed


def test_a_dead_tiers_transfers_are_over() -> None:
    breaker = Breaker(failures=1, retry_s=1, clock=lambda: 0.0)
    transfer = GuardedTransfer(Tier(Future()), breaker, breaker.failed, 1.0)
    future = transfer.submit_store()
    assert not future.query()

    assert transfer.abandon_outstanding() == 1

    assert future.query()
    assert future.result() is False


class LookupServer:
    """Answers "still loading" once, then the number of chunks."""

    def __init__(self) -> None:
        self.asked = 0
        self.freed: list[object] = []
        self.ended: list[str] = []

    def query_prefetch_status(self, request_id: str) -> SettledFuture:
        self.asked += 1
        return SettledFuture(None if self.asked == 1 else 3)

    def free_lookup_locks(self, key: object, readers: int) -> None:
        self.freed.append(key)

    def end_session(self, request_id: str) -> None:
        self.ended.append(request_id)


def test_an_abandoned_lookup_is_let_go_once_its_prefetch_is_over() -> None:
    lookups, server = AbandonedLookups(), LookupServer()
    lookups.add("r", "key", 1)

    rounds = [lookups.release(server) for _ in range(6)]

    assert sum(rounds) == 1
    assert server.freed == ["key"]
    assert server.ended == ["r"]
    assert not len(lookups)


def test_a_request_that_looks_up_again_keeps_its_answer() -> None:
    lookups, server = AbandonedLookups(), LookupServer()
    lookups.add("r", "key", 1)
    lookups.forget("r")

    assert lookups.release(server) == 0
    assert server.asked == 0


def test_only_so_many_abandoned_lookups_are_remembered() -> None:
    lookups = AbandonedLookups(limit=2)
    for request_id in "abc":
        lookups.add(request_id, request_id, 1)

    assert len(lookups) == 2
