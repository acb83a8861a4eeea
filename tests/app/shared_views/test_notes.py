"""What one gateway's index learns, another's learns from its notes; sealed, in order, bounded."""

from dataclasses import replace
from itertools import count

import pytest

from app.shared_views.inbox import Here, Inbox
from app.shared_views.outbox import Outbox
from app.shared_views.wire import Batch, Load, Presence, Seal, ToldReplica
from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex

SECRET = bytes(range(32))
URL = "http://engine:1"


class Pair:
    """Two gateways' books: the first tells, the second hears."""

    def __init__(self) -> None:
        self.now = 100.0
        self.outbox = Outbox("one", clock=lambda: self.now)
        self.mine = PrefixIndex(page_tokens=4, key=SECRET)
        self.theirs = PrefixIndex(page_tokens=4, key=SECRET)
        self.telling = self.outbox.telling(self.mine)
        self.outbox.needed = frozenset({"engine-0"})
        # The other one calls the replica by another name.
        self.here = Here(name="b", start="7", needed=True)
        self.inbox = Inbox(self.theirs, lambda: {URL: self.here})
        self.start = "7"

    def pack(self) -> list[Batch]:
        return list(self.outbox.pack({"engine-0": ToldReplica(URL, self.start)}))

    def deliver(self, *, is_history: bool = False) -> None:
        for batch in self.pack():
            self.inbox.take(batch, at=self.now, is_history=is_history)

    def prompt(self, pages: int, *, of: int = 0) -> PageKeys:
        return self.mine.keys([of * 1000 + n for n in range(4 * pages)])

    def held(self, keys: PageKeys, *, salt: str = "s") -> int:
        found = self.theirs.match(keys, salt=salt, sent_at=self.now).replicas.get("b")
        return found.resident_at_least if found else 0

    def racing(self, keys: PageKeys) -> int:
        found = self.theirs.match(keys, salt="s", sent_at=self.now).replicas.get("b")
        return found.racing if found else 0


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_gateways_with_one_secret_make_equal_keys_and_others_do_not() -> None:
    ids = list(range(64))
    [one, other] = [PrefixIndex(page_tokens=16, key=SECRET).keys(ids) for _ in range(2)]
    assert one == other
    assert one != PrefixIndex(page_tokens=16, key=bytes(32)).keys(ids)


def test_a_request_is_seen_when_it_is_sent_and_when_it_is_computed(pair: Pair) -> None:
    keys = pair.prompt(5)
    pair.telling.sent(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    assert (pair.racing(keys), pair.held(keys)) == (5, 0)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    assert (pair.held(keys), pair.held(keys, salt="t")) == (5, 0)


def test_a_chain_is_told_once_and_an_answers_pages_are_told_alone(pair: Pair) -> None:
    long, longer = pair.prompt(100), pair.prompt(103)
    pair.telling.sent(long, salt="s", replica="engine-0", at=pair.now)
    pair.telling.computed(long, salt="s", replica="engine-0", at=pair.now)
    pair.telling.computed(longer, salt="s", replica="engine-0", at=pair.now)
    [batch] = pair.pack()
    size = len(Seal(SECRET).close(batch))
    assert 103 * 8 < size < 103 * 8 + 200
    pair.inbox.take(batch, at=pair.now, is_history=False)
    assert pair.held(longer) == 103


def test_an_old_chain_is_told_whole_again(pair: Pair) -> None:
    """Whoever came meanwhile has not heard it."""
    keys = pair.prompt(9)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.pack()
    pair.now += 31
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    assert pair.held(keys) == 9


def test_a_late_comer_says_what_it_could_not_place(pair: Pair) -> None:
    keys = pair.prompt(9)
    pair.telling.sent(keys, salt="s", replica="engine-0", at=pair.now)
    pair.pack()  # nobody heard
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    assert (pair.held(keys), pair.inbox.unplaced) == (0, 1)


def test_what_ends_unanswered_is_held_by_nobody(pair: Pair) -> None:
    keys = pair.prompt(3)
    pair.telling.sent(keys, salt="s", replica="engine-0", at=pair.now)
    pair.telling.gave_up(keys, salt="s", replica="engine-0")
    pair.deliver()
    assert (pair.racing(keys), pair.held(keys)) == (0, 0)


def test_what_a_vanished_gateway_had_under_way_is_not_waited_for(pair: Pair) -> None:
    keys = pair.prompt(3)
    pair.telling.sent(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    pair.inbox.only(frozenset({"one"}))
    assert pair.racing(keys) == 3
    pair.inbox.only(frozenset())
    assert pair.racing(keys) == 0


def test_replicas_with_events_are_not_told_of(pair: Pair) -> None:
    pair.outbox.needed = frozenset()
    keys = pair.prompt(3)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    assert pair.pack() == []
    pair.outbox.needed = frozenset({"engine-0"})
    pair.here = replace(pair.here, needed=False)  # somebody else needs it
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    assert pair.held(keys) == 0


def test_tiers_are_told_of_always(pair: Pair) -> None:
    pair.outbox.needed = frozenset()
    keys = pair.prompt(3)
    pair.telling.tiered(keys, salt="s", at=pair.now)
    pair.deliver()
    assert pair.theirs.match(keys, salt="s", sent_at=pair.now).tiered == 3


def test_a_replicas_own_tiers_are_told_of_by_the_name_that_it_has_there(pair: Pair) -> None:
    pair.outbox.needed = frozenset()
    keys = pair.prompt(3)
    pair.telling.tiered(keys, salt="s", at=pair.now, tier="engine-0")
    pair.telling.tiered(keys, salt="s", at=pair.now, tier="gone")
    pair.deliver()
    match = pair.theirs.match(keys, salt="s", sent_at=pair.now)
    assert (match.own_tiers, match.tiered) == ({"b": 3}, 0)


def test_what_an_engine_held_before_it_began_anew_is_gone(pair: Pair) -> None:
    keys = pair.prompt(3)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.here = replace(pair.here, start="8")
    pair.deliver()
    assert pair.held(keys) == 0


def test_history_tells_of_restarts_and_the_present_does_not(pair: Pair) -> None:
    """A gateway that is there sees a restart for itself, and may know of what came since."""
    keys, later = pair.prompt(3), pair.prompt(3, of=1)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.now += 5
    pair.outbox.restarted("engine-0")
    pair.now += 5
    pair.telling.computed(later, salt="s", replica="engine-0", at=pair.now)
    [batch] = pair.pack()
    pair.inbox.take(batch, at=pair.now, is_history=False)
    assert pair.held(keys) == 3
    late = Pair()
    late.inbox.take(batch, at=pair.now, is_history=True)
    late.now = pair.now
    assert (late.held(keys), late.held(later)) == (0, 3)


def test_a_deleted_salt_is_forgotten_everywhere(pair: Pair) -> None:
    keys = pair.prompt(3)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.outbox.forgot("s")
    pair.deliver()
    assert pair.held(keys) == 0


def test_notes_that_do_not_fit_are_dropped_and_missed(pair: Pair) -> None:
    keys = pair.prompt(2)
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    for _ in range(20_005):
        pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    assert pair.outbox.untold == 5
    pair.outbox.forget()  # Redis is away
    assert pair.outbox.untold == 20_005
    pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    pair.deliver()
    assert pair.inbox.missed == 1


def test_batches_stay_small(pair: Pair) -> None:
    for number in range(40):
        keys = pair.prompt(2000, of=number)
        pair.telling.computed(keys, salt="s", replica="engine-0", at=pair.now)
    batches = pair.pack()
    assert len(batches) == 3
    assert [batch.number for batch in batches] == [1, 2, 3]


def test_only_holders_of_the_secret_read_and_write() -> None:
    presence = Presence("one", {URL: Load(3, 4096)}, [URL])
    sealed = Seal(SECRET).close(presence)
    assert Seal(SECRET).open_presence(sealed) == presence
    assert URL.encode() not in sealed
    assert Seal(bytes(32)).open_presence(sealed) is None
    for place in (0, 20, len(sealed) - 1):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert Seal(SECRET).open_presence(bytes(changed)) is None
    assert Seal(SECRET).open_batch(sealed) is None
    assert Seal(SECRET).open_batch(b"") is None
    assert Seal(SECRET).channel("a", "b") != Seal(SECRET).channel("ab")


def test_batches_come_back_as_they_were(pair: Pair) -> None:
    for number in count():
        pair.telling.sent(pair.prompt(2, of=number), salt="s", replica="engine-0", at=pair.now)
        if number == 3:
            break
    pair.outbox.restarted("engine-0")
    pair.outbox.forgot("t")
    [batch] = pair.pack()
    assert Seal(SECRET).open_batch(Seal(SECRET).close(batch)) == batch
