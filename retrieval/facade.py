"""`Collections`: files and collections of documents, for the gateway.

Every call blocks (disk, database, embedding) and may be made from any thread; the gateway calls it
in worker threads. All that is asked for is the tenant's own: what belongs to another is not found.

What is guaranteed: a file is on disk before `save_file` returns, and in the queue before
`enqueue_files` does; a collection has all of a file or nothing of it, whatever is killed when; the
order of documents and chunks is that of ingestion and only ever grows at its end, except that a
removed document closes its gap.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as CollectionOf
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from retrieval import chunk_store, held_store, store
from retrieval.catalog import IndexCatalog
from retrieval.chunking import ChunkingSettings
from retrieval.collection_records import check_active
from retrieval.documents import AttributeValue, Chunk, ParsedDocument, Passage, ScoredChunk
from retrieval.drafts import Draft
from retrieval.embed import Embedder
from retrieval.files import MAX_FILE_BYTES, Files
from retrieval.filters import Filter
from retrieval.held_records import HeldFileRecords
from retrieval.ingest import Ingester
from retrieval.ingest_batches import Batches
from retrieval.ingest_progress import ProgressBoard
from retrieval.ingest_queue import IngestQueue
from retrieval.ingest_sync import Synchroniser
from retrieval.ingest_wish import checked_wish
from retrieval.listing import Page, PageQuery
from retrieval.parsing import parse
from retrieval.prepare import prepare, prepared
from retrieval.records import (
    AddedFile,
    CollectionFile,
    Corpus,
    FileBatch,
    IngestProgress,
    StoredFile,
    SyncResult,
)
from retrieval.rerank import Reranker
from retrieval.search import Searcher, SearchMode, SearchSettings
from retrieval.transactions import snapshot, transaction
from retrieval.vectors import FaissBackend, VectorBackend


class Collections(HeldFileRecords):
    """Files, collections, search and corpora.

    Args:
        engine: of a database that has the tables of `retrieval.tables`. SQLite is durable against
            power loss only with `PRAGMA synchronous=FULL`, against crashes in any setting.
        directory: for files and indexes; owned by this process alone.
        count_tokens: what passages are measured by, and documents in `size`: tokens of a text
            by the tokenizer whose limit matters most, e.g. the embedding model's.
        parse_file: reads a file, which is then cut here.
        read_file: reads and cuts a file instead; a server gives a `DocumentParser`'s, which does
            both in a process of its own.
        workers: threads that ingest what is enqueued, once `queue` is started.
        vectors: what holds the vectors; FAISS in `directory` if nothing else is given.
        reranker: None: asking for re-ranking is an error.

    Attributes:
        queue: ingests what is enqueued; whoever opens the collections starts and stops it.
    """

    def __init__(
        self,
        engine: Engine,
        directory: Path,
        embedder: Embedder,
        count_tokens: Callable[[str], int],
        *,
        chunking: ChunkingSettings | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        parse_file: Callable[[str, bytes], ParsedDocument] = parse,
        read_file: Callable[[str, bytes], tuple[ParsedDocument, tuple[Passage, ...]]] | None = None,
        workers: int = 2,
        vectors: VectorBackend | None = None,
        searching: SearchSettings | None = None,
        reranker: Reranker | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(engine, embedder, now=now)
        self._files = Files(engine, directory / "files", max_file_bytes=max_file_bytes, now=now)
        self._board = ProgressBoard()
        chunking = chunking or ChunkingSettings()
        self._ingester = Ingester(
            engine,
            self._files,
            embedder,
            prepare=partial(
                prepare, count_tokens=count_tokens, chunking=chunking, parse_file=parse_file
            )
            if read_file is None
            else lambda name, data: prepared(*read_file(name, data)),
            board=self._board,
            now=now,
        )
        self.queue = IngestQueue(engine, self._ingester, board=self._board, workers=workers)
        self._batches = Batches(engine, embedder, wake=self.queue.wake, now=now)
        self._synchroniser = Synchroniser(engine, self._files, self._ingester)
        indexes = directory / "indexes"
        self._catalog = IndexCatalog(engine, indexes, vectors or FaissBackend(indexes))
        self._searcher = Searcher(
            engine, self._catalog, embedder, settings=searching, reranker=reranker
        )

    def close(self) -> None:
        """Ends the threads; database and embedder are closed by whoever made them."""
        self.queue.stop()
        self._catalog.close()

    def save_file(self, name: str, data: bytes, purpose: str, *, tenant: str) -> StoredFile:
        """Stores a file durably; see `Files.save`."""
        return self._files.save(name, data, purpose, tenant=tenant)

    def draft_file(self, *, tenant: str) -> AbstractContextManager[Draft]:
        """What a file of any size is to hold, written piece by piece; see `Files.draft`."""
        return self._files.draft(tenant=tenant)

    def save_draft(self, name: str, draft: Draft, purpose: str, *, tenant: str) -> StoredFile:
        """Stores what was drafted; see `Files.save_draft`."""
        return self._files.save_draft(name, draft, purpose, tenant=tenant)

    def get_file(self, file_id: str, *, tenant: str) -> StoredFile:
        """A file's record; see `Files.get`."""
        return self._files.get(file_id, tenant=tenant)

    def read_file(self, file_id: str, *, tenant: str) -> bytes:
        """A file's bytes; see `Files.read`."""
        return self._files.read(file_id, tenant=tenant)

    def list_files(self, *, tenant: str) -> list[StoredFile]:
        """A tenant's files, oldest first."""
        return self._files.list_all(tenant=tenant)

    def page_of_files(
        self, page: PageQuery, *, tenant: str, purpose: str | None = None
    ) -> Page[StoredFile]:
        """A page of a tenant's files, or of those of one purpose.

        Raises:
            NotInListError: it is to begin or end at a file that isn't among them.
        """
        return self._files.list_page(page, tenant=tenant, purpose=purpose)

    def delete_file(self, file_id: str, *, tenant: str) -> None:
        """Removes a file, from all collections too; see `Files.delete`."""
        self._files.delete(file_id, tenant=tenant)

    def delete(self, collection_id: str, *, tenant: str) -> None:
        """Removes a collection; the files stay. What is being ingested into it is given up.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
        """
        self.get(collection_id, tenant=tenant)
        with transaction(self._engine) as connection:
            store.claim(connection, collection_id)
            held = list(held_store.select_held_names(connection, collection_id))
            store.delete_collection(connection, collection_id)
        self._catalog.forget(collection_id)
        self._files.discard_synced(held, tenant=tenant)

    def add_file(
        self,
        collection_id: str,
        file_id: str,
        *,
        tenant: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        access: Iterable[str] | None = None,
    ) -> CollectionFile:
        """Parses, chunks and embeds a file into a collection.

        A file that is there already is left as it is. One that can't be parsed is kept with
        status `failed` and the reason; adding it again tries again.

        Args:
            attributes: what filters look at. None: those that the file has here, at first none.
            access: groups of which a request must have one to find it; empty: none is needed.
                None: those that the file has here, at first none is needed.

        Raises:
            CollectionNotFoundError, StoredFileNotFoundError: not this tenant's, or deleted while
                this ran.
            CollectionExpiredError, InvalidCollectionError: nothing was added.
            IndexManifestError: the collection was made with another embedding model.
            StoredFileDamagedError, EmbedderError, StorageError: nothing was added.
        """
        self.touch(collection_id, tenant=tenant)
        wish = checked_wish(attributes, access)
        return self._ingester.add_file(collection_id, file_id, tenant=tenant, wish=wish).file

    def enqueue_files(
        self,
        collection_id: str,
        file_ids: Sequence[str],
        *,
        tenant: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        access: Iterable[str] | None = None,
    ) -> list[CollectionFile]:
        """Puts files into the ingest queue; durable when this returns, and all or none of them.

        They are in progress until `queue` has ingested them in this order; those that the
        collection has already stay completed.

        Raises: as `add_file`, but what goes wrong with a file later is told by its status.
        """
        collection = self.touch(collection_id, tenant=tenant)
        return self._batches.enqueue(collection, file_ids, wish=checked_wish(attributes, access))

    def enqueue_each(
        self, collection_id: str, files: Sequence[AddedFile], *, tenant: str
    ) -> FileBatch:
        """As `enqueue_files`, as one batch, each file with its own attributes and access."""
        collection = self.touch(collection_id, tenant=tenant)
        wishes = {file.file_id: checked_wish(file.attributes, file.access) for file in files}
        return self._batches.enqueue_each(collection, wishes)

    def update_file(
        self,
        collection_id: str,
        file_id: str,
        *,
        tenant: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        access: Iterable[str] | None = None,
    ) -> CollectionFile:
        """Gives a file of a collection other attributes or access groups; None keeps them.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
            InvalidCollectionError: they can't be stored.
        """
        wish = checked_wish(attributes, access)
        self.touch(collection_id, tenant=tenant)
        known = self.get_collection_file(collection_id, file_id, tenant=tenant)
        return self._ingester.describe(known, wish)

    def sync(
        self,
        collection_id: str,
        files: Iterable[tuple[str, bytes]],
        *,
        tenant: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        access: Iterable[str] | None = None,
        remove_missing: bool = False,
        keep: Iterable[str] = (),
    ) -> SyncResult:
        """Makes a collection's files, by name, equal to these.

        Unchanged ones cost a comparison. A changed one is replaced in one transaction, and only
        its changed passages are embedded; the new document stands at the collection's end. One
        that can't be read is reported, and its older version stays.

        Args:
            files: (name, content), each name once; may be lazy. Those of before an error are done.
            remove_missing: takes files of other names out of the collection, in one transaction.
            keep: names that aren't missing, beside those of `files`.

        Raises: as `add_file`; InvalidCollectionError too when a name is given with two contents.
        """
        self.touch(collection_id, tenant=tenant)
        return self._synchroniser.sync(
            collection_id,
            files,
            tenant=tenant,
            wish=checked_wish(attributes, access),
            remove_missing=remove_missing,
            keep=keep,
        )

    def get_batch(self, collection_id: str, batch_id: str, *, tenant: str) -> FileBatch:
        """A batch and how far it is.

        Raises:
            FileBatchNotFoundError: the collection has none with this id.
        """
        self.get(collection_id, tenant=tenant)
        return self._batches.get(collection_id, batch_id)

    def cancel_batch(self, collection_id: str, batch_id: str, *, tenant: str) -> FileBatch:
        """Gives up what of a batch is still in progress; what is completed stays.

        Raises:
            FileBatchNotFoundError: the collection has none with this id.
        """
        self.get(collection_id, tenant=tenant)
        return self._batches.cancel(collection_id, batch_id)

    def list_batch_files(
        self, collection_id: str, batch_id: str, *, tenant: str
    ) -> list[CollectionFile]:
        """A batch's files, in any state, in the order they came.

        Raises:
            FileBatchNotFoundError: the collection has none with this id.
        """
        self.get(collection_id, tenant=tenant)
        return self._batches.files(collection_id, batch_id)

    def progress(self, collection_id: str, file_id: str, *, tenant: str) -> IngestProgress:
        """How far a file has come.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
        """
        return self._board.of(self.get_collection_file(collection_id, file_id, tenant=tenant))

    def remove_file(self, collection_id: str, file_id: str, *, tenant: str) -> None:
        """Takes a file out of a collection, also out of the queue; the file itself stays.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
        """
        self.get(collection_id, tenant=tenant)
        with transaction(self._engine) as connection:
            store.claim(connection, collection_id)
            held_store.remove_from_collection(connection, collection_id, file_id)
        self._files.discard_synced([file_id], tenant=tenant)

    def search(
        self,
        collection_id: str,
        query: str,
        k: int = 8,
        *,
        tenant: str,
        filters: Filter | None = None,
        groups: CollectionOf[str] = (),
        mode: SearchMode | str = SearchMode.HYBRID,
        rerank: bool = False,
    ) -> list[ScoredChunk]:
        """The k chunks that fit the query best, best first; see `Searcher.search`.

        Raises:
            CollectionExpiredError: its time is over.
            InvalidSearchError, CollectionNotFoundError, IndexManifestError, EmbedderError,
            StorageError
        """
        collection = self.touch(collection_id, tenant=tenant)
        return self._searcher.search(
            collection_id,
            query,
            k,
            tenant=tenant,
            filters=filters,
            groups=groups,
            mode=mode,
            rerank=rerank,
            known=collection,
        )

    def corpus(self, collection_id: str, *, tenant: str) -> Corpus:
        """All documents and chunks as of one moment, in canonical order.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
            CollectionExpiredError: its time is over.
        """
        with snapshot(self._engine) as connection:
            collection = store.select_collection(connection, collection_id, tenant, self._now())
            check_active(collection)
            documents = chunk_store.select_documents(connection, collection_id)
            chunks = chunk_store.select_chunks(connection, collection_id)
            restricted = held_store.has_restricted_files(connection, collection_id)
        return Corpus(
            documents=tuple(documents),
            chunks=tuple(chunks),
            revision=collection.revision,
            restricted=restricted,
        )

    def corpus_chunks(self, collection_id: str, *, tenant: str) -> list[Chunk]:
        """All chunks in canonical order: the corpus in citable passages."""
        return list(self.corpus(collection_id, tenant=tenant).chunks)
