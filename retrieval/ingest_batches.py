"""Files that are added together or one by one, for the queue to ingest."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, Engine

from retrieval import file_store, held_store, ingest_store, store
from retrieval.collection_records import check_embedder
from retrieval.embed import Embedder
from retrieval.ingest_wish import Wish, as_wished, is_as_wished
from retrieval.records import Collection, CollectionFile, FileBatch, FileStatus
from retrieval.transactions import transaction


class Batches:
    """Puts files into the queue, durably before it returns. Safe for several threads.

    Args:
        wake: called after files were put into the queue.
    """

    def __init__(
        self,
        engine: Engine,
        embedder: Embedder,
        *,
        wake: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._wake = wake
        self._now = now

    def enqueue(
        self, collection: Collection, file_ids: Sequence[str], *, wish: Wish
    ) -> list[CollectionFile]:
        """See `Collections.enqueue_files`: all of them or, with an error, none."""
        with transaction(self._engine) as connection:
            wishes = dict.fromkeys(file_ids, wish)
            files = self._enqueued(connection, collection, wishes, None)
        self._wake()
        return files

    def enqueue_each(self, collection: Collection, wishes: Mapping[str, Wish]) -> FileBatch:
        """As `enqueue`, under one id, each file with a wish of its own."""
        batch_id = f"vsfb_{secrets.token_hex(12)}"
        with transaction(self._engine) as connection:
            files = self._enqueued(connection, collection, wishes, batch_id)
            members = [file.file_id for file in files]
            ingest_store.insert_batch(
                connection, batch_id, collection.id, members, int(self._now())
            )
            batch = ingest_store.select_batch(connection, collection.id, batch_id)
        self._wake()
        return batch

    def get(self, collection_id: str, batch_id: str) -> FileBatch:
        """Raises FileBatchNotFoundError."""
        with transaction(self._engine) as connection:
            return ingest_store.select_batch(connection, collection_id, batch_id)

    def cancel(self, collection_id: str, batch_id: str) -> FileBatch:
        """Raises FileBatchNotFoundError."""
        with transaction(self._engine) as connection:
            store.lock(connection, collection_id)
            ingest_store.cancel_batch(connection, collection_id, batch_id)
            return ingest_store.select_batch(connection, collection_id, batch_id)

    def files(self, collection_id: str, batch_id: str) -> list[CollectionFile]:
        """Raises FileBatchNotFoundError."""
        with transaction(self._engine) as connection:
            ingest_store.select_batch(connection, collection_id, batch_id)
            return held_store.select_collection_files(connection, collection_id, batch_id=batch_id)

    def _enqueued(
        self,
        connection: Connection,
        collection: Collection,
        wishes: Mapping[str, Wish],
        batch_id: str | None,
    ) -> list[CollectionFile]:
        check_embedder(collection, self._embedder)
        for file_id in sorted(wishes):
            file_store.hold_file(connection, file_id, collection.tenant)
        store.lock(connection, collection.id)
        return [
            self._put(connection, collection.id, file_id, wish, batch_id)
            for file_id, wish in wishes.items()
        ]

    def _put(
        self,
        connection: Connection,
        collection_id: str,
        file_id: str,
        wish: Wish,
        batch_id: str | None,
    ) -> CollectionFile:
        known = held_store.find_collection_file(connection, collection_id, file_id)
        if known is None:
            known = CollectionFile(
                collection_id=collection_id,
                file_id=file_id,
                status=FileStatus.IN_PROGRESS,
                document_id=None,
                chunk_count=0,
                last_error=None,
                created_at=int(self._now()),
            )
        is_done = known.status is FileStatus.COMPLETED
        if is_done and not is_as_wished(known, wish):
            store.claim(connection, collection_id)
        put = replace(
            as_wished(known, known, wish),
            status=known.status if is_done else FileStatus.IN_PROGRESS,
            last_error=None,
            batch_id=batch_id or known.batch_id,
        )
        held_store.put_collection_file(connection, put)
        return put
