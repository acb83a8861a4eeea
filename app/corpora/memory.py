"""Corpora over a restart of the gateway: written down as they change, and taken up again."""

import math
import time
from functools import partial

import anyio
import sqlalchemy as sa

from app.corpora.entry import Entry
from app.corpora.shelf import Shelf
from app.corpora.store import CorpusRecord, CorpusRecords
from app.corpora.values import CorpusState
from app.trouble import Trouble
from retrieval import CollectionNotFoundError, Collections

_WRITE_S = 30.0
_MEET_S = 5.0


class CorpusMemory:
    """Reads the table once, and writes into it what changed. Its failures are logged alone."""

    def __init__(self, shelf: Shelf, collections: Collections, database: sa.Engine) -> None:
        self._shelf = shelf
        self._collections = collections
        self._records = CorpusRecords(database)
        self._written: dict[str, CorpusRecord] = {}
        self._written_at = time.monotonic()
        self._remembered = False
        self._met_at = -math.inf
        self._unread = Trouble("corpora_unreadable")
        self._unmet = Trouble("collections_unreadable")
        self._unwritten = Trouble("corpora_unwritable")

    async def remember(self) -> None:
        """After a restart: the corpora that were in use. What the engine has is looked up."""
        if self._remembered:
            return
        try:
            records = await anyio.to_thread.run_sync(self._records.read)
            for record in records:
                await self._recall(record)
        except sa.exc.SQLAlchemyError as error:
            self._unread.failed(type(error).__name__)
            return
        self._unread.worked()
        self._remembered = True

    async def meet_pinned(self) -> None:
        """Now and then: the collections that are pinned to mode cag, though nobody asked yet."""
        now = time.monotonic()
        if now - self._met_at < _MEET_S:
            return
        self._met_at = now
        try:
            pinned = await anyio.to_thread.run_sync(self._records.pinned)
            for collection_id, tenant in pinned:
                if collection_id not in self._shelf.entries:
                    await self._found(collection_id, tenant)
        except sa.exc.SQLAlchemyError as error:
            self._unmet.failed(type(error).__name__)
            return
        self._unmet.worked()

    async def _recall(self, record: CorpusRecord) -> None:
        self._written[record.collection_id] = record
        entry = await self._found(record.collection_id, record.tenant)
        if entry is None:
            return  # forgotten at the next writing
        entry.demand = entry.demand.asked(record.demand_at, record.demand)
        entry.verified_at = record.verified_at
        if record.resident:
            entry.state = CorpusState.STALE
            entry.problem = "the gateway was started anew: what the engine holds is looked up"

    async def _found(self, collection_id: str, tenant: str) -> Entry | None:
        get = partial(self._collections.get, collection_id, tenant=tenant)
        try:
            return self._shelf.find(await anyio.to_thread.run_sync(get))
        except CollectionNotFoundError:
            return None

    async def write_down(self) -> None:
        """What changed: places at once, demand now and then."""
        now = time.monotonic()
        records = {entry.collection.id: _record(entry) for entry in self._shelf}
        due = now - self._written_at >= _WRITE_S
        changed = [
            record
            for name, record in records.items()
            if _differs(self._written.get(name), record, demand=due)
        ]
        gone = [name for name in self._written if name not in records]
        if not changed and not gone:
            return
        try:
            await anyio.to_thread.run_sync(self._records.write, changed)
            for name in gone:
                await anyio.to_thread.run_sync(self._records.forget, name)
                del self._written[name]
        except sa.exc.SQLAlchemyError as error:
            self._unwritten.failed(type(error).__name__)
            return
        self._unwritten.worked()
        self._written |= {record.collection_id: record for record in changed}
        self._written_at = now


def _record(entry: Entry) -> CorpusRecord:
    made = entry.serving
    return CorpusRecord(
        collection_id=entry.collection.id,
        tenant=entry.collection.tenant,
        address=made.prefix.address if made else None,
        tokens=made.prefix.tokens if made else None,
        resident=entry.held,
        demand=entry.demand.count,
        demand_at=entry.demand.at,
        verified_at=entry.verified_at,
    )


def _differs(before: CorpusRecord | None, after: CorpusRecord, *, demand: bool) -> bool:
    """Whether a record is worth writing: demand alone only now and then."""
    if before is None:
        return True
    if (before.address, before.resident) != (after.address, after.resident):
        return True
    return demand and before.demand_at != after.demand_at
