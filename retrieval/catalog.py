"""The index of each collection, kept equal to the database.

An index in memory is current while the collection's revision is the one it was made at. Otherwise
it is brought up: extended when documents were only added, taken from disk when the saved one fits,
and made from the stored embeddings in every other case. Nothing here can lose a document.
"""

import shutil
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from retrieval.chunk_store import select_chunk_ids, select_embeddings
from retrieval.durable import PART_SUFFIX
from retrieval.errors import IndexDamagedError, IndexManifestError, IndexNotFoundError, StorageError
from retrieval.index import VectorIndex, empty_index, load_index
from retrieval.records import Collection


@dataclass(frozen=True, slots=True)
class _Current:
    revision: int
    index: VectorIndex


class IndexCatalog:
    """Indexes in memory (the most recently used ones) and on disk. Safe for several threads.

    Args:
        folder: one folder for each collection is made in it.
        max_loaded: collections whose index stays in memory.
    """

    def __init__(self, folder: Path, *, max_loaded: int = 32) -> None:
        self._folder = folder
        self._max_loaded = max_loaded
        self._loaded: OrderedDict[str, _Current] = OrderedDict()
        self._lock = threading.Lock()
        for part in folder.glob(f"*/*{PART_SUFFIX}"):  # of a save that a crash cut off
            part.unlink(missing_ok=True)

    def current(self, connection: Connection, collection: Collection) -> VectorIndex:
        """The index of the collection at its revision or a later one."""
        with self._lock:
            held = self._loaded.get(collection.id)
            if held is None or held.revision != collection.revision:
                index = self._brought_up(connection, collection, held.index if held else None)
                held = _Current(collection.revision, index)
                self._loaded[collection.id] = held
            self._loaded.move_to_end(collection.id)
            while len(self._loaded) > self._max_loaded:
                self._loaded.popitem(last=False)
            return held.index

    def forget(self, collection_id: str) -> None:
        """Drops a deleted collection's index from memory and disk."""
        with self._lock:
            self._loaded.pop(collection_id, None)
            shutil.rmtree(self._folder / collection_id, ignore_errors=True)

    def _brought_up(
        self, connection: Connection, collection: Collection, held: VectorIndex | None
    ) -> VectorIndex:
        chunk_ids = select_chunk_ids(connection, collection.id)
        folder = self._folder / collection.id
        if held is None:
            with suppress(IndexNotFoundError, IndexDamagedError, IndexManifestError):
                return load_index(
                    folder,
                    dimension=collection.dimension,
                    embedder=collection.embedder,
                    chunk_ids=chunk_ids,
                )
        if held is None or tuple(chunk_ids[: len(held)]) != held.chunk_ids:
            held = empty_index(dimension=collection.dimension, embedder=collection.embedder)
        added_ids, vectors = select_embeddings(
            connection, collection.id, dimension=collection.dimension, skip=len(held)
        )
        if added_ids != chunk_ids[len(held) :]:
            # The collection changed between the two statements; one statement agrees with itself.
            held = empty_index(dimension=collection.dimension, embedder=collection.embedder)
            added_ids, vectors = select_embeddings(
                connection, collection.id, dimension=collection.dimension
            )
        index = held.extended(vectors, added_ids)
        # A full disk costs a rebuild at the next start, not the search.
        with suppress(StorageError):
            index.save(folder)
        return index
