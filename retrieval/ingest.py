"""A file's way into a collection: read, parsed, chunked, embedded, then stored in one transaction.

Everything slow happens before the transaction, so that it is short; whatever changed meanwhile is
looked at again inside it. A kill at any moment leaves the collection without the file or with all
of it.
"""

from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy import Connection, Engine

from retrieval import chunk_store, file_store, held_store, store
from retrieval.collection_records import check_embedder
from retrieval.embed import Embedder, Vectors
from retrieval.embeddings import EmbeddingCache, drop_pending
from retrieval.errors import (
    CollectionFileNotFoundError,
    EmbedderError,
    ParsingLimitError,
    UnreadableDocumentError,
)
from retrieval.files import Files
from retrieval.ingest_progress import Progress, ProgressBoard
from retrieval.ingest_wish import (
    DocumentWords,
    Ingested,
    IngestStoppedError,
    NotWaitedForError,
    Wish,
    as_wished,
    is_as_wished,
)
from retrieval.prepare import PreparedDocument
from retrieval.records import (
    Collection,
    CollectionFile,
    FileError,
    FileStatus,
    IngestStage,
    StoredFile,
)
from retrieval.transactions import transaction

# Passages handed to the embedder at once. A crash loses the vectors of at most one slice, and
# progress moves by it.
_SLICE = 32

Prepare = Callable[[str, bytes], PreparedDocument]


class Ingester:
    """Adds files to collections. Safe for several threads.

    Args:
        prepare: makes passages of a file's name and bytes; raises UnreadableDocumentError.
    """

    def __init__(
        self,
        engine: Engine,
        files: Files,
        embedder: Embedder,
        *,
        prepare: Prepare,
        board: ProgressBoard,
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._files = files
        self._embedder = embedder
        self._cache = EmbeddingCache(engine)
        self._prepare = prepare
        self._board = board
        self._now = now

    def add_file(
        self, collection_id: str, file_id: str, *, tenant: str, wish: Wish | None = None
    ) -> Ingested:
        """See `Collections.add_file`.

        Raises:
            IngestStoppedError, NotWaitedForError: as the wish says; nothing was added.
        """
        wish = wish or Wish()
        with transaction(self._engine) as connection:
            collection = store.select_collection(connection, collection_id, tenant, self._now())
            file = file_store.select_file(connection, file_id, tenant)
            known = held_store.find_collection_file(connection, collection_id, file_id)
        if known is not None and known.status is FileStatus.COMPLETED and not wish.supersedes:
            return Ingested(file=self.describe(known, wish))
        check_embedder(collection, self._embedder)
        with self._board.shown(collection_id, file_id) as progress:
            return self._worked_in(collection, file, wish, progress)

    def describe(self, known: CollectionFile, wish: Wish) -> CollectionFile:
        """Gives a file of a collection the attributes and access that are wished, if others."""
        if is_as_wished(known, wish):
            return known
        with transaction(self._engine) as connection:
            store.claim(connection, known.collection_id)
            current = held_store.find_collection_file(
                connection, known.collection_id, known.file_id
            )
            if current is None:
                raise CollectionFileNotFoundError(known.collection_id, known.file_id)
            return held_store.describe_collection_file(
                connection,
                current,
                attributes=current.attributes if wish.attributes is None else wish.attributes,
                access=current.access if wish.access is None else wish.access,
            )

    def note_failure(
        self, collection: Collection, file: StoredFile, error: FileError, wish: Wish
    ) -> CollectionFile:
        """Keeps a file with status failed.

        Raises:
            CollectionNotFoundError, StoredFileNotFoundError: deleted meanwhile.
            NotWaitedForError: it was queued and is no more.
        """
        with transaction(self._engine) as connection:
            file_store.hold_file(connection, file.id, file.tenant)
            store.lock(connection, collection.id)
            known = self._still_wanted(connection, collection.id, file.id, wish)
            if known is not None and known.status is FileStatus.COMPLETED:
                return known
            failed = CollectionFile(
                collection_id=collection.id,
                file_id=file.id,
                status=FileStatus.FAILED,
                document_id=None,
                chunk_count=0,
                last_error=error,
                created_at=int(self._now()),
            )
            failed = as_wished(failed, known, wish)
            held_store.put_collection_file(connection, failed)
            drop_pending(connection, collection.id, [file.id])
        return failed

    def _worked_in(
        self, collection: Collection, file: StoredFile, wish: Wish, progress: Progress
    ) -> Ingested:
        progress.stage = IngestStage.READING
        data = self._files.read(file.id, tenant=file.tenant)
        try:
            prepared = self._prepare(file.name, data)
        except UnreadableDocumentError as error:
            is_limit = isinstance(error, ParsingLimitError)
            code = "parsing_limit" if is_limit else "unreadable_document"
            why = FileError(code=code, message=str(error))
            return Ingested(file=self.note_failure(collection, file, why, wish))
        del data
        progress.total = len(prepared.passages)
        return self._add_document(collection, file, prepared, wish, progress)

    def _add_document(
        self,
        collection: Collection,
        file: StoredFile,
        prepared: PreparedDocument,
        wish: Wish,
        progress: Progress,
    ) -> Ingested:
        with transaction(self._engine) as connection:
            is_there = chunk_store.has_document(connection, collection.id, prepared.parsed.id)
        work = DocumentWords(prepared)
        if not is_there:
            self._embed(collection, file, work, wish, progress)
        added = self._store(collection, file, work, wish, progress)
        if added is None:  # the file that shared its document has gone meanwhile
            self._embed(collection, file, work, wish, progress)
            added = self._store(collection, file, work, wish, progress)
        assert added is not None, "only a store without embeddings can lack them"
        return added

    def _embed(
        self,
        collection: Collection,
        file: StoredFile,
        work: DocumentWords,
        wish: Wish,
        progress: Progress,
    ) -> None:
        """Finds or makes the vector of each passage."""
        progress.stage = IngestStage.EMBEDDING
        work.vectors = self._cache.known(collection, file.id, work.digests)
        progress.done = work.reused = work.count(work.vectors)
        missing = work.missing()
        for start in range(0, len(missing), _SLICE):
            if wish.stopping():
                raise IngestStoppedError
            part = missing[start : start + _SLICE]
            made = dict(zip(part, self._made([work.words[d] for d in part]), strict=True))
            is_last = start + _SLICE >= len(missing)
            if wish.queued and not is_last and not self._cache.keep(collection.id, file.id, made):
                raise NotWaitedForError
            work.vectors.update(made)
            progress.done += work.count(made)

    def _made(self, texts: Sequence[str]) -> Vectors:
        vectors = self._embedder.embed_passages(texts)
        expected = (len(texts), self._embedder.dimension)
        if vectors.shape != expected or not np.isfinite(vectors).all():
            raise EmbedderError(
                self._embedder.id, f"it gives {vectors.shape} where {expected} is expected."
            )
        return vectors

    def _store(
        self,
        collection: Collection,
        file: StoredFile,
        work: DocumentWords,
        wish: Wish,
        progress: Progress,
    ) -> Ingested | None:
        """The transaction; None when the document has gone and its embeddings are needed after all.

        The document is there without embeddings given when another file has the same bytes.
        """
        progress.stage = IngestStage.STORING
        document_id = work.prepared.parsed.id
        with transaction(self._engine) as connection:
            file_store.hold_file(connection, file.id, file.tenant)
            store.lock(connection, collection.id)
            known = self._still_wanted(connection, collection.id, file.id, wish)
            if known is not None and is_as_wished(known, wish):
                return Ingested(file=known)  # another thread was first
            is_there = chunk_store.has_document(connection, collection.id, document_id)
            if not is_there and not work.is_complete:
                return None
            if not is_there:
                self._put_document(connection, collection, file, work)
            store.claim(connection, collection.id)
            added = self._completed(connection, collection, file, work, known, wish)
            held_store.put_collection_file(connection, added)
            drop_pending(connection, collection.id, [file.id])
            gone = _superseded(connection, collection.id, file) if wish.supersedes else ()
        return Ingested(
            file=added,
            embedded=0 if is_there else len(work.digests) - work.reused,
            reused=len(work.digests) if is_there else work.reused,
            superseded=gone,
        )

    def _put_document(
        self, connection: Connection, collection: Collection, file: StoredFile, work: DocumentWords
    ) -> None:
        position = chunk_store.next_position(connection, collection.id)
        chunk_store.put_document(
            connection,
            collection.id,
            work.prepared.placed(position=position, file_id=file.id),
            work.prepared.passages,
            np.stack([work.vectors[digest] for digest in work.digests]),
            digests=work.digests,
        )

    def _completed(
        self,
        connection: Connection,
        collection: Collection,
        file: StoredFile,
        work: DocumentWords,
        known: CollectionFile | None,
        wish: Wish,
    ) -> CollectionFile:
        document_id = work.prepared.parsed.id
        chunk_count = chunk_store.count_chunks(connection, collection.id, document_id)
        text_bytes = len(work.prepared.parsed.text.encode())
        chunk_bytes = sum(len(words.encode()) for words in work.words.values())
        completed = CollectionFile(
            collection_id=collection.id,
            file_id=file.id,
            status=FileStatus.COMPLETED,
            document_id=document_id,
            chunk_count=chunk_count,
            last_error=None,
            created_at=int(self._now()),
            usage_bytes=text_bytes + chunk_bytes + 4 * collection.dimension * chunk_count,
        )
        return as_wished(completed, known, wish)

    def _still_wanted(
        self, connection: Connection, collection_id: str, file_id: str, wish: Wish
    ) -> CollectionFile | None:
        """The file's row as of this transaction.

        Raises:
            NotWaitedForError: it was queued and is no more.
        """
        known = held_store.find_collection_file(connection, collection_id, file_id)
        is_waiting = known is not None and known.status is FileStatus.IN_PROGRESS
        if wish.queued and not is_waiting:
            raise NotWaitedForError
        return known


def _superseded(connection: Connection, collection_id: str, file: StoredFile) -> tuple[str, ...]:
    """Takes the other files of its name out of the collection; their ids."""
    named = held_store.select_held_digests(connection, collection_id, file.name)
    gone = tuple(file_id for file_id in named if file_id != file.id)
    for file_id in gone:
        held_store.remove_from_collection(connection, collection_id, file_id)
    return gone
