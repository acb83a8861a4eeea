"""An engine's KV events: decoding, and noticing what is missing. Pure; `app` owns the sockets.

Source: sglang 0.5.23 srt/disaggregation/kv_events.py (BlockStored, …, ZmqEventPublisher).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from cache.errors import KvEventError

GPU = "GPU"


class BlockStored(msgspec.Struct, tag=True, kw_only=True, frozen=True, gc=False):
    """Pages that are now in a replica's cache, in order, after the page `parent_block_hash`.

    `parent_block_hash` None: they start a prompt. `medium` None means the GPU. Hashes are the
    engine's own; they are only names by which it calls the pages later.
    """

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    cache_salt: str | None = None
    session_id: str | None = None
    lora_name: str | None = None


class BlockRemoved(msgspec.Struct, tag=True, kw_only=True, frozen=True, gc=False):
    """Pages that a replica's cache no longer holds."""

    block_hashes: list[int]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, frozen=True):
    """A replica's cache was dropped as a whole."""


@dataclass(frozen=True, slots=True)
class UnreadEvent:
    """An event of a kind, or in a form, that isn't known here: what it changed is not known."""

    reason: str


KvEvent: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared | UnreadEvent


class EventBatch(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """What one step of an engine changed; `ts` is the engine's clock, in seconds."""

    ts: float
    events: tuple[KvEvent, ...]
    attn_dp_rank: int | None = None


_Known: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared


class _KnownBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list[_Known]
    attn_dp_rank: int | None = None


class _WireBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list[msgspec.Raw]
    attn_dp_rank: int | None = None


_known_batches = msgspec.msgpack.Decoder(_KnownBatch)
_batches = msgspec.msgpack.Decoder(_WireBatch)
_events: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_Known)


def decode_batch(payload: bytes) -> EventBatch:
    """The events of one message's last part.

    An event that can't be read becomes an `UnreadEvent` in its place; the others are kept.

    Raises:
        KvEventError: the payload isn't a batch at all.
    """
    try:
        known = _known_batches.decode(payload)
    except msgspec.MsgspecError:
        return _one_by_one(payload)
    for event in known.events:
        if isinstance(event, BlockStored) and (
            event.block_size < 1
            or len(event.block_hashes) * event.block_size != len(event.token_ids)
        ):
            return _one_by_one(payload)
    return EventBatch(ts=known.ts, events=tuple(known.events), attn_dp_rank=known.attn_dp_rank)


def _one_by_one(payload: bytes) -> EventBatch:
    try:
        batch = _batches.decode(payload)
    except msgspec.MsgspecError as exc:
        raise KvEventError(reason=str(exc)) from exc
    events = tuple(_event(raw) for raw in batch.events)
    return EventBatch(ts=batch.ts, events=events, attn_dp_rank=batch.attn_dp_rank)


def _event(raw: msgspec.Raw) -> KvEvent:
    try:
        event: _Known = _events.decode(raw)
    except msgspec.MsgspecError as exc:
        return UnreadEvent(str(exc))
    return _checked(event)


def _checked(event: _Known) -> KvEvent:
    if not isinstance(event, BlockStored):
        return event
    pages, tokens = len(event.block_hashes), len(event.token_ids)
    if event.block_size < 1 or pages * event.block_size != tokens:
        return UnreadEvent(
            f"BlockStored with {tokens} tokens in {pages} pages of {event.block_size}"
        )
    return event


class StoredTogether:
    """Stored pages put together where one event goes on behind another, as an answer's behind its
    prompt's: what is one in the end is noted as one.

    Only stored pages may be put together without minding what came between.

    Attributes:
        count: how many events they make.
    """

    def __init__(self) -> None:
        self.count = 0
        self._events: list[BlockStored] = []
        self._ending: dict[int, BlockStored] = {}  # by the name of the last page

    def add(self, event: BlockStored) -> None:
        """Take an event; it may be changed from now on."""
        parent, names = event.parent_block_hash, event.block_hashes
        if not names:
            return
        before = None if parent is None else self._ending.get(parent)
        if (
            before is None
            or before.cache_salt != event.cache_salt
            or before.medium != event.medium
            or before.block_size != event.block_size
            or before.lora_id != event.lora_id
            or before.lora_name != event.lora_name
        ):
            self._events.append(event)
            self.count += 1
            self._ending[names[-1]] = event
            return
        del self._ending[before.block_hashes[-1]]
        before.block_hashes.extend(names)
        before.token_ids.extend(event.token_ids)
        self._ending[names[-1]] = before

    def taken(self) -> list[BlockStored]:
        """All of them, none before what it goes on behind; there are none afterwards."""
        events, self._events = self._events, []
        self.count = 0
        self._ending.clear()
        return events


class Arrival(StrEnum):
    """What a batch's number says about it.

    `NEXT`       the one that follows: apply it
    `DUPLICATE`  applied before, as after a replay: skip it
    `GAP`        batches before it are missing: replay them, or tell the index that evidence is
                 lost, then apply it
    `RESTARTED`  the engine was started anew and numbers from 0 again: tell the index that its
                 cache was cleared, replay what is `missing`, then apply it
    """

    NEXT = "next"
    DUPLICATE = "duplicate"
    GAP = "gap"
    RESTARTED = "restarted"


class Arrived(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """How a batch arrived, and the numbers `first` … `last` that are missing before it."""

    kind: Arrival
    first: int
    last: int

    @property
    def missing(self) -> int:
        """How many batches before it are missing."""
        return max(0, self.last - self.first + 1)

    @property
    def replay_from(self) -> int:
        """Where a replay should begin: one batch earlier, to see that it is the same engine."""
        return max(0, self.first - 1)


class _Seen(msgspec.Struct, frozen=True, gc=False):
    number: int
    ts: float


class EventSequence:
    """The numbers of one publisher's batches: what is missing, and whether the engine restarted.

    A publisher never goes back. So a number that has passed is either a batch seen twice (its time
    isn't later than the newest one's) or comes from an engine started anew. An engine started anew
    that has overtaken the expected number already looks like a gap: `replayed` finds out.
    """

    def __init__(self) -> None:
        self._newest: _Seen | None = None
        self._before_gap: _Seen | None = None

    @property
    def expected(self) -> int:
        """The number that the next batch should have; 0 before the first."""
        return 0 if self._newest is None else self._newest.number + 1

    def accept(self, number: int, ts: float) -> Arrived:
        """Notes a live batch: from now on it is the newest, unless it is a duplicate."""
        newest = self._newest
        expected = 0 if newest is None else newest.number + 1
        passed = newest is not None and number < expected
        if passed and newest is not None and ts <= newest.ts:
            return Arrived(kind=Arrival.DUPLICATE, first=expected, last=expected - 1)
        self._newest = _Seen(number, ts)
        self._before_gap = None if passed else newest
        if passed:
            return Arrived(kind=Arrival.RESTARTED, first=0, last=number - 1)
        kind = Arrival.GAP if number > expected else Arrival.NEXT
        return Arrived(kind=kind, first=expected, last=number - 1)

    def replayed(self, number: int, ts: float) -> Arrival:
        """What a batch replayed after a gap is: `NEXT` (apply it), `DUPLICATE` or `RESTARTED`.

        `RESTARTED`: the numbers before the gap belonged to an engine that is no more. Call
        `restarted` and replay from 0.
        """
        before = self._before_gap
        if before is None or number > before.number:
            return Arrival.NEXT
        if number == before.number and ts != before.ts:
            return Arrival.RESTARTED
        return Arrival.DUPLICATE

    def restarted(self) -> None:
        """The engine is known to have been started anew; the newest batch is one of its own."""
        self._before_gap = None

    def forget(self) -> None:
        """Starts over: the next batch is the first one ever seen."""
        self._newest = self._before_gap = None
