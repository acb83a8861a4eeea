"""The indexes of each collection, kept equal to the database.

A snapshot is what a collection looked like at one revision, and is never changed: searches that
hold one go on while the next is made. It is brought up when a search finds the revision changed,
by what changed. Each collection waits for its own changes alone; what takes long (a new base) is
made beside everything. Nothing here can lose a document.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection as CollectionOf
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import numpy as np
from sqlalchemy import Connection, Engine, select

from retrieval.durable import PART_SUFFIX
from retrieval.errors import StorageError
from retrieval.filters import Filter, canonical, matches, may_see
from retrieval.index_views import (
    Allowed,
    DocumentKey,
    Mask,
    VectorBackend,
    VectorView,
    chunk_position,
    document_position,
)
from retrieval.lexical import LexicalIndexes, LexicalView
from retrieval.records import Collection
from retrieval.search_rows import Holder, select_documents_held
from retrieval.tables import collections
from retrieval.transactions import transaction

_REMEMBERED = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A collection as searches see it.

    Attributes:
        documents: by position.
        holders: the files that each document came from, by its position.
        restricted: some file is not for everyone.
    """

    collection: Collection
    documents: Mapping[int, DocumentKey]
    holders: Mapping[int, tuple[Holder, ...]]
    restricted: bool
    vectors: VectorView
    lexical: LexicalView
    _remembered: dict[str, Allowed] = field(default_factory=dict)

    def allowed(self, filter: Filter | None, groups: CollectionOf[str]) -> Allowed | None:
        """The documents that a request may find; None: all."""
        if filter is None and not self.restricted:
            return None
        groups = sorted(set(groups)) if self.restricted else []
        key = f"{self.collection.revision} {groups} {canonical(filter)}"
        known = self._remembered.get(key)
        if known is None:
            known = Allowed(key, self._mask(filter, groups))
            if len(self._remembered) < _REMEMBERED:
                self._remembered[key] = known
        return known

    def chunk_at(self, place: int) -> tuple[str, int]:
        """(document id, position in it) of a place that a search of this snapshot gave."""
        return self.documents[document_position(place)].id, chunk_position(place)

    def found_as(
        self, position: int, filter: Filter | None, groups: CollectionOf[str]
    ) -> Holder | None:
        """The first of a document's files that a request may find."""
        for holder in self.holders.get(position, ()):
            if may_see(holder.access, groups) and (
                filter is None or matches(filter, holder.attributes)
            ):
                return holder
        return None

    def _mask(self, filter: Filter | None, groups: CollectionOf[str]) -> Mask:
        mask = np.zeros(max(self.documents, default=-1) + 1, np.bool_)
        for position in self.documents:
            mask[position] = self.found_as(position, filter, groups) is not None
        return mask


class _Entry:
    """One collection's snapshot, and the lock under which the next one is made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.snapshot: Snapshot | None = None
        self.forgotten = False
        self.rebuilding: Future[None] | None = None


class IndexCatalog:
    """Snapshots of collections in memory (the most recently used ones). Safe for several threads.

    Args:
        engine: of the database with retrieval's tables; rebuilding reads from it.
        folder: for files that can be made again.
        max_loaded: collections whose indexes stay in memory.
        max_chunks: of all of them together, about 2.2 kB each with 384 dimensions; one collection
            is loaded however large it is.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        vectors: VectorBackend,
        *,
        max_loaded: int = 32,
        max_chunks: int = 1_000_000,
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._lexical = LexicalIndexes(folder)
        self._max_loaded = max_loaded
        self._max_chunks = max_chunks
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()  # of the table of entries; never held while working
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="index-rebuild")
        self._swept: Future[None] | None = None
        self._is_closed = False
        for part in folder.glob(f"*/*{PART_SUFFIX}"):  # of a save that a crash cut off
            part.unlink(missing_ok=True)

    def __enter__(self) -> "IndexCatalog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def held(self, collection: Collection) -> Snapshot | None:
        """The collection at its revision or a later one, if that is in memory."""
        snapshot = self._entry(collection.id).snapshot
        if snapshot is None or snapshot.collection.revision < collection.revision:
            return None
        return snapshot

    def current(self, connection: Connection, collection: Collection) -> Snapshot:
        """The collection at its revision or a later one.

        Args:
            collection: read by this connection before.
        """
        if (held := self.held(collection)) is not None:
            return held
        entry = self._entry(collection.id)
        with entry.lock:
            snapshot = entry.snapshot
            if snapshot is None or snapshot.collection.revision < collection.revision:
                snapshot = entry.snapshot = self._brought_up(connection, collection, snapshot)
                self._rebuild_later(entry)
        return snapshot

    def distrust(self, snapshot: Snapshot) -> None:
        """Lets go of a snapshot whose indexes have vanished: the next search makes them again."""
        with self._lock:
            entry = self._entries.get(snapshot.collection.id)
            if entry is not None and entry.snapshot is snapshot:
                del self._entries[snapshot.collection.id]

    def forget(self, collection_id: str) -> None:
        """Drops a deleted collection's indexes from memory and disk; searches that run go on."""
        with self._lock:
            entry = self._entries.pop(collection_id, None)
        if entry is not None:
            entry.forgotten = True
        self._drop(collection_id)

    def settle(self, timeout_s: float | None = None) -> None:
        """Waits until nothing is being rebuilt.

        Raises:
            TimeoutError: it took longer.
        """
        with self._lock:
            pending = [self._swept, *(entry.rebuilding for entry in self._entries.values())]
        for future in pending:
            if future is not None:
                future.result(timeout_s)

    def close(self) -> None:
        """Ends background work; what was not finished is made again when it is needed."""
        self._is_closed = True
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _entry(self, collection_id: str) -> _Entry:
        with self._lock:
            if self._swept is None:
                self._swept = self._worker.submit(self._sweep)
            entry = self._entries.setdefault(collection_id, _Entry())
            self._entries.move_to_end(collection_id)
            while len(self._entries) > 1 and self._is_full():
                self._entries.popitem(last=False)
            return entry

    def _is_full(self) -> bool:
        """Called with the lock held."""
        loaded = [entry.snapshot for entry in self._entries.values()]
        chunks = sum(len(snapshot.lexical) for snapshot in loaded if snapshot)
        return len(loaded) > self._max_loaded or chunks > self._max_chunks

    def _brought_up(
        self, connection: Connection, collection: Collection, held: Snapshot | None
    ) -> Snapshot:
        held_by = select_documents_held(connection, collection.id)
        keys = tuple(held_by)
        return Snapshot(
            collection=collection,
            documents={key.position: key for key in keys},
            holders={key.position: files for key, files in held_by.items()},
            restricted=any(file.access for files in held_by.values() for file in files),
            vectors=self._vectors.view(
                connection, collection, keys, held.vectors if held else None
            ),
            lexical=self._lexical.view(
                connection, collection, keys, held.lexical if held else None
            ),
        )

    def _rebuild_later(self, entry: _Entry) -> None:
        if entry.rebuilding is None or entry.rebuilding.done():
            entry.rebuilding = self._worker.submit(self._rebuild, entry)

    def _rebuild(self, entry: _Entry) -> None:
        """Makes worn indexes anew, in the worker's thread.

        Once more if they have worn meanwhile: no search may come that finds another change.
        """
        try:
            while not self._is_closed and self._made_anew(entry):
                pass
        except StorageError as error:
            _log.warning("an index was not rebuilt: %s", error)

    def _made_anew(self, entry: _Entry) -> bool:
        snapshot = entry.snapshot
        assert snapshot is not None, "there was one when this was asked for"
        collection = snapshot.collection
        vectors = self._vectors.rebuilt(collection, snapshot.vectors)
        lexical = self._lexical.rebuilt(collection, snapshot.lexical)
        if entry.forgotten or not self._exists(collection.id):
            # A search that began before the deletion may have brought up its indexes after it.
            self.forget(collection.id)
            return False
        if vectors is None and lexical is None:
            return False
        self._install(entry, vectors, lexical)
        return True

    def _exists(self, collection_id: str) -> bool:
        with transaction(self._engine) as connection:
            row = connection.execute(
                select(collections.c.id).where(collections.c.id == collection_id)
            )
            return row.first() is not None

    def _install(
        self, entry: _Entry, vectors: VectorView | None, lexical: LexicalView | None
    ) -> None:
        """Puts rebuilt indexes in place, with what changed while they were being made."""
        with entry.lock, transaction(self._engine) as connection:
            now = entry.snapshot
            assert now is not None, "snapshots are replaced, not taken away"
            keys = tuple(sorted(now.documents.values()))
            if vectors is not None:
                vectors = self._vectors.view(connection, now.collection, keys, vectors)
            if lexical is not None:
                lexical = self._lexical.view(connection, now.collection, keys, lexical)
            entry.snapshot = replace(
                now,
                vectors=now.vectors if vectors is None else vectors,
                lexical=now.lexical if lexical is None else lexical,
            )

    def _drop(self, collection_id: str) -> None:
        self._lexical.forget(collection_id)
        # What couldn't be removed now is swept up at the next start.
        with suppress(StorageError):
            self._vectors.forget(collection_id)

    def _sweep(self) -> None:
        """Removes what a crash has left of deleted collections, in the worker's thread."""
        with suppress(StorageError):
            held = self._vectors.held() | self._lexical.held()
            # Read after what is held: a collection has its row before it has an index.
            with transaction(self._engine) as connection:
                existing = set(connection.execute(select(collections.c.id)).scalars())
            for collection_id in sorted(held - existing):
                self._drop(collection_id)
