"""The files that collections hold: found, listed and read. How they come and go is elsewhere."""

from retrieval import chunk_store, held_store, ingest_store, store
from retrieval.collection_records import CollectionRecords
from retrieval.errors import CollectionFileNotFoundError
from retrieval.listing import Page, PageQuery
from retrieval.records import CollectionFile, FileStatus
from retrieval.transactions import transaction


class HeldFileRecords(CollectionRecords):
    """The part of `Collections` that reads what is recorded of their files."""

    def list_collection_files(self, collection_id: str, *, tenant: str) -> list[CollectionFile]:
        """The files of a collection in the order they came, in any state."""
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant, self._now())
            return held_store.select_collection_files(connection, collection_id)

    def page_of_collection_files(
        self,
        collection_id: str,
        page: PageQuery,
        *,
        tenant: str,
        batch_id: str | None = None,
        status: FileStatus | None = None,
    ) -> Page[CollectionFile]:
        """A page of a collection's files, or of those of one batch or in one state.

        Raises:
            FileBatchNotFoundError: the collection has none with this id.
            NotInListError: it is to begin or end at a file that isn't among them.
        """
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant, self._now())
            if batch_id is not None:
                ingest_store.select_batch(connection, collection_id, batch_id)
            return held_store.select_collection_files_page(
                connection, collection_id, page, batch_id=batch_id, status=status
            )

    def get_collection_file(
        self, collection_id: str, file_id: str, *, tenant: str
    ) -> CollectionFile:
        """A file's place in a collection.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
        """
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant, self._now())
            file = held_store.find_collection_file(connection, collection_id, file_id)
        if file is None:
            raise CollectionFileNotFoundError(collection_id, file_id)
        return file

    def file_text(self, collection_id: str, file_id: str, *, tenant: str) -> str:
        """The text that was read of a file; empty unless it is completed.

        Raises:
            CollectionFileNotFoundError: the collection doesn't hold it.
        """
        held = self.get_collection_file(collection_id, file_id, tenant=tenant)
        if held.document_id is None:
            return ""
        with transaction(self._engine) as connection:
            return chunk_store.select_text(connection, collection_id, held.document_id)
