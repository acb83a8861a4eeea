"""`Collections`: files and collections of documents, for the gateway.

Every call blocks (disk, database, embedding) and may be made from any thread; the gateway calls it
in worker threads. All that is asked for is the tenant's own: what belongs to another is not found.

What is guaranteed: a file is on disk before `save_file` returns; a collection has all of a file or
nothing of it, whatever is killed when; the order of documents and chunks is that of ingestion and
only ever grows at its end, except that a removed document closes its gap.
"""

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine

from retrieval import chunk_store, store
from retrieval.catalog import IndexCatalog
from retrieval.chunking import ChunkingSettings
from retrieval.documents import Chunk, Document, ScoredChunk
from retrieval.embed import Embedder
from retrieval.errors import (
    AmbiguousCollectionError,
    CollectionFileNotFoundError,
    CollectionNotFoundError,
    InvalidSearchError,
)
from retrieval.files import MAX_FILE_BYTES, Files
from retrieval.ingest import Ingester, check_embedder
from retrieval.records import (
    Collection,
    CollectionFile,
    CollectionSize,
    StoredFile,
)
from retrieval.transactions import transaction

MAX_RESULTS = 64


class Collections:
    """Files, collections, search and corpora.

    Args:
        engine: of a database that has the tables of `retrieval.tables`. SQLite is durable against
            power loss only with `PRAGMA synchronous=FULL`, against crashes in any setting.
        directory: for files and indexes; owned by this process alone.
        count_tokens: what passages are measured by, and documents in `size`: tokens of a text
            by the tokenizer whose limit matters most, e.g. the embedding model's.
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
        now: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._now = now
        self._files = Files(engine, directory / "files", max_file_bytes=max_file_bytes, now=now)
        self._ingester = Ingester(
            engine,
            self._files,
            embedder,
            count_tokens=count_tokens,
            chunking=chunking or ChunkingSettings(),
            now=now,
        )
        self._catalog = IndexCatalog(directory / "indexes")

    def save_file(self, name: str, data: bytes, purpose: str, *, tenant: str) -> StoredFile:
        """Stores a file durably; see `Files.save`."""
        return self._files.save(name, data, purpose, tenant=tenant)

    def get_file(self, file_id: str, *, tenant: str) -> StoredFile:
        """A file's record; see `Files.get`."""
        return self._files.get(file_id, tenant=tenant)

    def read_file(self, file_id: str, *, tenant: str) -> bytes:
        """A file's bytes; see `Files.read`."""
        return self._files.read(file_id, tenant=tenant)

    def list_files(self, *, tenant: str) -> list[StoredFile]:
        """A tenant's files, oldest first."""
        return self._files.list_all(tenant=tenant)

    def delete_file(self, file_id: str, *, tenant: str) -> None:
        """Removes a file, from all collections too; see `Files.delete`."""
        self._files.delete(file_id, tenant=tenant)

    def create(self, name: str, *, tenant: str) -> Collection:
        """A new, empty collection. Names need not be unique."""
        collection = Collection(
            id=f"vs_{secrets.token_hex(12)}",
            tenant=tenant,
            name=name,
            embedder=self._embedder.id,
            dimension=self._embedder.dimension,
            revision=0,
            created_at=int(self._now()),
        )
        with transaction(self._engine) as connection:
            store.insert_collection(connection, collection)
        return collection

    def get(self, collection_id: str, *, tenant: str) -> Collection:
        """One collection.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
        """
        with transaction(self._engine) as connection:
            return store.select_collection(connection, collection_id, tenant)

    def resolve(self, name_or_id: str, *, tenant: str) -> Collection:
        """The collection with this id, else the one with this name.

        Raises:
            CollectionNotFoundError: neither.
            AmbiguousCollectionError: several have the name.
        """
        owned = self.list_all(tenant=tenant)
        matches = [c for c in owned if c.id == name_or_id]
        matches = matches or [c for c in owned if c.name == name_or_id]
        if not matches:
            raise CollectionNotFoundError(name_or_id)
        if len(matches) > 1:
            raise AmbiguousCollectionError(name_or_id, [c.id for c in matches])
        return matches[0]

    def list_all(self, *, tenant: str) -> list[Collection]:
        """A tenant's collections, oldest first."""
        with transaction(self._engine) as connection:
            return store.select_collections(connection, tenant)

    def size(self, collection_id: str, *, tenant: str) -> CollectionSize:
        """How much a collection holds."""
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant)
            return store.collection_size(connection, collection_id)

    def delete(self, collection_id: str, *, tenant: str) -> None:
        """Removes a collection; the files stay.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
        """
        self.get(collection_id, tenant=tenant)
        with transaction(self._engine) as connection:
            store.delete_collection(connection, collection_id)
        self._catalog.forget(collection_id)

    def add_file(self, collection_id: str, file_id: str, *, tenant: str) -> CollectionFile:
        """Parses, chunks and embeds a file into a collection.

        A file that is there already is left as it is. One that can't be parsed is kept with
        status `failed` and the reason; adding it again tries again.

        Raises:
            CollectionNotFoundError, StoredFileNotFoundError: not this tenant's, or deleted while
                this ran.
            IndexManifestError: the collection was made with another embedding model.
            StoredFileDamagedError, EmbedderError, StorageError: nothing was added.
        """
        return self._ingester.add_file(collection_id, file_id, tenant=tenant)

    def list_collection_files(self, collection_id: str, *, tenant: str) -> list[CollectionFile]:
        """The files of a collection in order of ingestion, failed ones included."""
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant)
            return store.select_collection_files(connection, collection_id)

    def get_collection_file(
        self, collection_id: str, file_id: str, *, tenant: str
    ) -> CollectionFile:
        """A file's place in a collection.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
        """
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant)
            file = store.find_collection_file(connection, collection_id, file_id)
        if file is None:
            raise CollectionFileNotFoundError(collection_id, file_id)
        return file

    def remove_file(self, collection_id: str, file_id: str, *, tenant: str) -> None:
        """Takes a file out of a collection; the file itself stays.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
        """
        self.get(collection_id, tenant=tenant)
        with transaction(self._engine) as connection:
            store.claim(connection, collection_id)
            store.remove_from_collection(connection, collection_id, file_id)

    def search(
        self, collection_id: str, query: str, k: int = 8, *, tenant: str
    ) -> list[ScoredChunk]:
        """The k chunks nearest to the query, best first; fewer if there are fewer.

        For a prompt, put them through `retrieval.for_prompt`.

        Raises:
            InvalidSearchError: an empty query, or k not 1 to 64.
            CollectionNotFoundError, IndexManifestError, EmbedderError, StorageError
        """
        if not query.strip():
            raise InvalidSearchError("the query is empty")
        if not 1 <= k <= MAX_RESULTS:
            raise InvalidSearchError(f"k is {k}, it must be 1 to {MAX_RESULTS}")
        with transaction(self._engine) as connection:
            collection = store.select_collection(connection, collection_id, tenant)
            check_embedder(collection, self._embedder)
            index = self._catalog.current(connection, collection)
        hits = index.search(self._embedder.embed_query(query), k)
        scores = {index.chunk_ids[row]: score for row, score in hits}
        with transaction(self._engine) as connection:
            found = chunk_store.select_chunks_by_id(connection, collection_id, scores)
        return [
            ScoredChunk(chunk=found[chunk_id], score=score)
            for chunk_id, score in scores.items()
            if chunk_id in found  # removed since the index was read
        ]

    def corpus(self, collection_id: str, *, tenant: str) -> list[Document]:
        """All documents in canonical order: by ingestion, so that adding one only appends."""
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant)
            return chunk_store.select_documents(connection, collection_id)

    def corpus_chunks(self, collection_id: str, *, tenant: str) -> list[Chunk]:
        """All chunks in canonical order: the corpus in citable passages."""
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant)
            return chunk_store.select_chunks(connection, collection_id)
