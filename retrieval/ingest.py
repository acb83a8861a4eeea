"""A file's way into a collection: read, parsed, chunked, embedded, then stored in one transaction.

Everything slow happens before the transaction, so that it is short; whatever changed meanwhile is
looked at again inside it. A kill at any moment leaves the collection without the file or with all
of it.
"""

from collections.abc import Callable

import numpy as np
from sqlalchemy import Connection, Engine

from retrieval import chunk_store, file_store, store
from retrieval.chunking import ChunkingSettings
from retrieval.embed import Embedder, Vectors
from retrieval.errors import EmbedderError, IndexManifestError, UnreadableDocumentError
from retrieval.files import Files
from retrieval.prepare import PreparedDocument, embedding_text, prepare
from retrieval.records import Collection, CollectionFile, FileError, FileStatus, StoredFile
from retrieval.transactions import transaction


class Ingester:
    """Adds files to collections. Safe for several threads."""

    def __init__(
        self,
        engine: Engine,
        files: Files,
        embedder: Embedder,
        *,
        count_tokens: Callable[[str], int],
        chunking: ChunkingSettings,
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._files = files
        self._embedder = embedder
        self._count_tokens = count_tokens
        self._chunking = chunking
        self._now = now

    def add_file(self, collection_id: str, file_id: str, *, tenant: str) -> CollectionFile:
        """See `Collections.add_file`."""
        with transaction(self._engine) as connection:
            collection = store.select_collection(connection, collection_id, tenant)
            file = file_store.select_file(connection, file_id, tenant)
            known = _completed(connection, collection, file)
        if known is not None:
            return known
        check_embedder(collection, self._embedder)
        data = self._files.read(file_id, tenant=tenant)
        try:
            prepared = prepare(
                file.name, data, count_tokens=self._count_tokens, chunking=self._chunking
            )
        except UnreadableDocumentError as error:
            return self._note_failure(collection, file, error)
        return self._add_document(collection, file, prepared)

    def _note_failure(
        self, collection: Collection, file: StoredFile, error: UnreadableDocumentError
    ) -> CollectionFile:
        failed = CollectionFile(
            collection_id=collection.id,
            file_id=file.id,
            status=FileStatus.FAILED,
            document_id=None,
            chunk_count=0,
            last_error=FileError(code="unreadable_document", message=str(error)),
            created_at=int(self._now()),
        )
        with transaction(self._engine) as connection:
            store.claim(connection, collection.id)
            file_store.select_file(connection, file.id, file.tenant)
            store.put_collection_file(connection, failed)
        return failed

    def _add_document(
        self, collection: Collection, file: StoredFile, prepared: PreparedDocument
    ) -> CollectionFile:
        with transaction(self._engine) as connection:
            is_there = chunk_store.has_document(connection, collection.id, prepared.parsed.id)
        embeddings = None if is_there else self._embeddings(prepared)
        added = self._store(collection, file, prepared, embeddings)
        if added is None:
            added = self._store(collection, file, prepared, self._embeddings(prepared))
        assert added is not None, "only a store without embeddings can lack them"
        return added

    def _store(
        self,
        collection: Collection,
        file: StoredFile,
        prepared: PreparedDocument,
        embeddings: Vectors | None,
    ) -> CollectionFile | None:
        """The transaction; None when the document has gone and its embeddings are needed after all.

        The document is there without embeddings given when another file has the same bytes.
        """
        with transaction(self._engine) as connection:
            store.claim(connection, collection.id)
            file_store.select_file(connection, file.id, file.tenant)
            known = _completed(connection, collection, file)
            if known is not None:
                return known
            if not chunk_store.has_document(connection, collection.id, prepared.parsed.id):
                if embeddings is None:
                    return None
                position = chunk_store.next_position(connection, collection.id)
                document = prepared.placed(position=position, file_id=file.id)
                chunk_store.put_document(
                    connection, collection.id, document, prepared.passages, embeddings
                )
            added = self._completed_file(connection, collection, file, prepared.parsed.id)
            store.put_collection_file(connection, added)
            return added

    def _completed_file(
        self, connection: Connection, collection: Collection, file: StoredFile, document_id: str
    ) -> CollectionFile:
        return CollectionFile(
            collection_id=collection.id,
            file_id=file.id,
            status=FileStatus.COMPLETED,
            document_id=document_id,
            chunk_count=chunk_store.count_chunks(connection, collection.id, document_id),
            last_error=None,
            created_at=int(self._now()),
        )

    def _embeddings(self, prepared: PreparedDocument) -> Vectors:
        texts = [embedding_text(passage) for passage in prepared.passages]
        vectors = self._embedder.embed_passages(texts)
        expected = (len(texts), self._embedder.dimension)
        if vectors.shape != expected or not np.isfinite(vectors).all():
            raise EmbedderError(
                self._embedder.id, f"it gives {vectors.shape} where {expected} is expected."
            )
        return vectors


def check_embedder(collection: Collection, embedder: Embedder) -> None:
    """Refuses to compare vectors of two models.

    Raises:
        IndexManifestError: the collection was made with another embedder.
    """
    if collection.embedder != embedder.id:
        raise IndexManifestError("embedder", embedder.id, collection.embedder)


def _completed(
    connection: Connection, collection: Collection, file: StoredFile
) -> CollectionFile | None:
    known = store.find_collection_file(connection, collection.id, file.id)
    if known is None or known.status is FileStatus.FAILED:
        return None
    return known
