"""Changes of the tree in the words of SGLang's KV events."""

import msgspec

from bench.engine_sim.changes import Cleared, Namespace, Removed, Stored, block_hash
from bench.engine_sim.events import encode_batch

FIRST, SECOND = bytes([1] * 32), bytes([255] * 32)


def decoded(*changes: Stored | Removed | Cleared) -> list[dict[str, object]]:
    batch = msgspec.msgpack.decode(encode_batch(changes, page_size=2, at_s=5.0))
    assert (batch[0], batch[2]) == (5.0, 0)
    events: list[dict[str, object]] = batch[1]
    return events


def test_stored_pages_leave_out_what_they_do_not_have() -> None:
    stored = Stored(Namespace(), None, (FIRST,), (7, 8))
    assert decoded(stored) == [
        {
            "type": "BlockStored",
            "block_hashes": [block_hash(FIRST)],
            "parent_block_hash": None,
            "token_ids": [7, 8],
            "block_size": 2,
            "lora_id": None,
            "medium": "GPU",
        }
    ]
    (salted,) = decoded(Stored(Namespace("s", "k"), FIRST, (SECOND,), (7, 8)))
    assert salted["cache_salt"] == "s"
    assert salted["parent_block_hash"] == block_hash(FIRST)


def test_neighbouring_removals_are_one_event() -> None:
    one, two = (Removed(Namespace(salt), (d,)) for salt, d in (("a", FIRST), ("b", SECOND)))
    both = [block_hash(FIRST), block_hash(SECOND)]
    assert [e.get("block_hashes") for e in decoded(one, two, Cleared(), one)] == [
        both,
        None,
        both[:1],
    ]


def test_a_hash_is_signed() -> None:
    assert block_hash(SECOND) == -1
