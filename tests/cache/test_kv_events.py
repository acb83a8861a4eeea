"""KV events as the engine writes them, and what their numbers tell."""

import msgspec
import pytest

from bench.engine_sim.changes import Cleared, Namespace, Removed, Stored, page_digests
from bench.engine_sim.events import encode_batch
from cache.errors import KvEventError
from cache.kv_events import (
    AllBlocksCleared,
    Arrival,
    BlockRemoved,
    BlockStored,
    EventSequence,
    StoredTogether,
    UnreadEvent,
    decode_batch,
)


def test_a_batch_of_the_engine_is_read_as_it_was_written() -> None:
    digests = tuple(page_digests(range(8), 4, previous=None, salt="s"))
    changes = [
        Stored(Namespace("s"), None, digests, tuple(range(8))),
        Removed(Namespace("s"), digests[1:]),
        Cleared(),
    ]
    batch = decode_batch(encode_batch(changes, page_size=4, at_s=12.5))
    stored, removed, cleared = batch.events
    assert batch.ts == 12.5
    assert isinstance(stored, BlockStored)
    assert (stored.token_ids, stored.cache_salt, stored.medium) == (list(range(8)), "s", "GPU")
    assert isinstance(removed, BlockRemoved)
    assert removed.block_hashes == stored.block_hashes[1:]
    assert cleared == AllBlocksCleared()


def test_what_cannot_be_read_stands_in_its_place_and_the_rest_is_kept() -> None:
    events = [
        {"type": "BlockMoved", "block_hashes": [1]},
        {"type": "BlockRemoved", "block_hashes": [1], "added_later": True},
        {"type": "BlockRemoved", "block_hashes": "all"},
        stored_map(token_ids=[1, 2, 3]),
        stored_map(token_ids=[(1, 2), (2, 3)]),
        "not a map",
    ]
    found = decode_batch(msgspec.msgpack.encode([0.0, events, 0])).events
    assert found[1] == BlockRemoved(block_hashes=[1])
    assert [isinstance(event, UnreadEvent) for event in found] == [True, False, *[True] * 4]


def test_optional_parts_may_be_missing() -> None:
    (event,) = decode_batch(msgspec.msgpack.encode([0.0, [stored_map()]])).events
    assert isinstance(event, BlockStored)
    assert (event.cache_salt, event.medium, event.lora_name) == (None, None, None)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"text", msgspec.msgpack.encode({"ts": 1})])
def test_a_payload_that_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(KvEventError, match="--kv-events-config"):
        decode_batch(payload)


def test_numbers_in_order_are_next() -> None:
    sequence = EventSequence()
    arrivals = [sequence.accept(number, float(number)) for number in range(3)]
    assert [arrived.kind for arrived in arrivals] == [Arrival.NEXT] * 3
    assert sum(arrived.missing for arrived in arrivals) == 0
    assert sequence.expected == 3


def test_a_subscriber_that_comes_late_misses_the_beginning() -> None:
    arrived = EventSequence().accept(5, 1.0)
    assert (arrived.kind, arrived.first, arrived.last, arrived.missing) == (Arrival.GAP, 0, 4, 5)
    assert arrived.replay_from == 0


def test_a_gap_is_replayed_from_the_batch_before_it() -> None:
    sequence = EventSequence()
    sequence.accept(0, 1.0)
    sequence.accept(1, 2.0)
    arrived = sequence.accept(4, 5.0)
    assert (arrived.kind, arrived.first, arrived.last) == (Arrival.GAP, 2, 3)
    assert arrived.replay_from == 1
    kinds = [sequence.replayed(number, number + 1.0) for number in (1, 2, 3)]
    assert kinds == [Arrival.DUPLICATE, Arrival.NEXT, Arrival.NEXT]


def test_batches_that_a_replay_brought_already_are_duplicates() -> None:
    sequence = EventSequence()
    sequence.accept(0, 1.0)
    sequence.accept(3, 4.0)
    assert sequence.accept(2, 3.0).kind is Arrival.DUPLICATE
    assert sequence.accept(3, 4.0).kind is Arrival.DUPLICATE
    assert sequence.accept(4, 5.0).kind is Arrival.NEXT


def test_an_engine_started_anew_numbers_from_0_again() -> None:
    sequence = EventSequence()
    sequence.accept(0, 1.0)
    sequence.accept(1, 2.0)
    arrived = sequence.accept(0, 9.0)
    assert (arrived.kind, arrived.missing) == (Arrival.RESTARTED, 0)
    assert sequence.accept(1, 10.0).kind is Arrival.NEXT


def test_an_engine_started_anew_may_have_missing_batches_too() -> None:
    sequence = EventSequence()
    for number in range(4):
        sequence.accept(number, float(number))
    arrived = sequence.accept(2, 9.0)
    assert (arrived.kind, arrived.first, arrived.last) == (Arrival.RESTARTED, 0, 1)
    assert sequence.replayed(0, 8.0) is Arrival.NEXT


def test_a_replay_shows_that_a_gap_was_a_restart() -> None:
    sequence = EventSequence()
    sequence.accept(0, 1.0)
    assert sequence.accept(5, 50.0).kind is Arrival.GAP
    assert sequence.replayed(0, 45.0) is Arrival.RESTARTED
    sequence.restarted()
    assert [sequence.replayed(number, 45.0 + number) for number in (0, 1)] == [Arrival.NEXT] * 2


def test_a_sequence_that_is_forgotten_begins_again() -> None:
    sequence = EventSequence()
    sequence.accept(7, 1.0)
    sequence.forget()
    assert sequence.accept(0, 0.5).kind is Arrival.NEXT


def stored_map(**changes: object) -> dict[str, object]:
    plain = {
        "type": "BlockStored",
        "block_hashes": [1],
        "parent_block_hash": None,
        "token_ids": [1, 2],
        "block_size": 2,
        "lora_id": None,
    }
    return plain | changes


def test_an_event_is_put_behind_the_one_that_it_goes_on_from_in_its_salt_only() -> None:
    together = StoredTogether()
    together.add(stored([1, 2], after=None))
    together.add(stored([3], after=2))
    together.add(stored([4], after=2))  # parts from the one before
    together.add(stored([5], after=3, salt="other"))
    together.add(stored([6], after=3))
    events = [(event.parent_block_hash, event.block_hashes) for event in together.taken()]
    assert events == [(None, [1, 2, 3, 6]), (2, [4]), (3, [5])]
    assert together.taken() == []


def stored(names: list[int], *, after: int | None, salt: str = "s") -> BlockStored:
    return BlockStored(
        block_hashes=names,
        parent_block_hash=after,
        token_ids=list(names),
        block_size=1,
        cache_salt=salt,
    )
