"""What can go wrong in retrieval, as one tree.

```
RetrievalError
├── UnreadableDocumentError      (name, why)          the bytes can't become text
│   └── ParsingLimitError        (name, limit, value, unit)   reading it takes more than is allowed
├── ParserUnavailableError       (why)                the parser's process can't be started
├── FileTooLargeError            (name, size_bytes, limit_bytes)
├── StoredFileNotFoundError      (file_id)
├── StoredFileDamagedError       (file_id, why)       the stored bytes are not those that came in
├── CollectionNotFoundError      (collection)
├── CollectionExpiredError       (collection_id, expired_at, removed_at)
├── InvalidCollectionError       (field, why)         metadata, attributes, access, expiry
├── FileBatchNotFoundError       (batch_id)
├── AmbiguousCollectionError     (name, ids)
├── CollectionFileNotFoundError  (collection_id, file_id)
├── InvalidSearchError           (why)
├── InvalidFilterError           (path, problem)      a filter on attributes that isn't one
├── NotInListError               (param, item_id)     a page can't begin or end at it
├── RerankerError                (model, why)
├── IndexNotFoundError           (path)
├── IndexManifestError           (field, expected, found)
├── IndexDamagedError            (path, why)
├── EmbedderError                (embedder, why)
│   ├── EmbedderBusyError        (embedder, why)      it is given more than it can do
│   └── EmbedderUnavailableError (embedder, why)      it can't be had; no text's fault
└── StorageError                 (where, why)         disk or database; the cause is kept
    ├── StorageAwayError         (where, why)         the database is away or locked
    └── IndexVanishedError       (where, why)         it was dropped under a search
```

Each error carries fields; its sentence says what was wrong and what to do.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final


class RetrievalError(Exception):
    """Anything that retrieval refuses or fails to do."""


class UnreadableDocumentError(RetrievalError):
    """The file's bytes can't be turned into text."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(name, why)

    def __str__(self) -> str:
        return f"{self.name!r} can't be read: {self.why}"


class ParsingLimitError(UnreadableDocumentError):
    """Reading the file took more time, memory or text than this deployment allows."""

    def __init__(self, name: str, limit: str, value: int, unit: str) -> None:
        self.limit = limit
        self.value = value
        self.unit = unit
        super().__init__(
            name,
            f"reading it takes more {limit} than the {value:,} {unit} allowed; "
            "split it into smaller files, or export its text alone and upload that.",
        )
        self.args = (name, limit, value, unit)


class ParserUnavailableError(RetrievalError):
    """The process that reads documents can't be started or doesn't answer; no file's fault."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)

    def __str__(self) -> str:
        return (
            f"The document parser can't be started ({self.why}); "
            "check free memory and the installation, then try again."
        )


class FileTooLargeError(RetrievalError):
    """The file is larger than this deployment accepts."""

    def __init__(self, name: str, size_bytes: int, limit_bytes: int) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(name, size_bytes, limit_bytes)

    def __str__(self) -> str:
        return (
            f"{self.name!r} has {self.size_bytes:,} bytes, more than the {self.limit_bytes:,} "
            "that are accepted; split it, or raise the limit."
        )


class StoredFileNotFoundError(RetrievalError):
    """There is no such file for this tenant."""

    def __init__(self, file_id: str) -> None:
        self.file_id = file_id
        super().__init__(file_id)

    def __str__(self) -> str:
        return f"There is no file {self.file_id!r}; upload it first or list the files."


class StoredFileDamagedError(RetrievalError):
    """The stored bytes are missing or are not the ones that were accepted."""

    def __init__(self, file_id: str, why: str) -> None:
        self.file_id = file_id
        self.why = why
        super().__init__(file_id, why)

    def __str__(self) -> str:
        return (
            f"The stored bytes of file {self.file_id!r} are damaged ({self.why}); "
            "check the disk and upload the file again."
        )


class CollectionNotFoundError(RetrievalError):
    """There is no such collection for this tenant."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        super().__init__(collection)

    def __str__(self) -> str:
        if self.collection.startswith("vs_"):
            return f"There is no collection {self.collection!r}; it may have been deleted."
        return f"There is no collection {self.collection!r}; create it by ingesting a document."


class CollectionExpiredError(RetrievalError):
    """The collection's time is over; what it holds is still there.

    Times are seconds since the epoch.
    """

    def __init__(self, collection_id: str, expired_at: int, removed_at: int) -> None:
        self.collection_id = collection_id
        self.expired_at = expired_at
        self.removed_at = removed_at
        super().__init__(collection_id, expired_at, removed_at)

    def __str__(self) -> str:
        return (
            f"Collection {self.collection_id!r} has expired on {_day(self.expired_at)}; it is kept "
            f"until {_day(self.removed_at)}: set its expiry anew to have it back."
        )


class InvalidCollectionError(RetrievalError):
    """A collection or file can't be described like this."""

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        self.why = why
        super().__init__(field, why)

    def __str__(self) -> str:
        return f"{self.field} can't be stored: {self.why}."


class FileBatchNotFoundError(RetrievalError):
    """There is no such batch in this collection."""

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(batch_id)

    def __str__(self) -> str:
        return f"There is no file batch {self.batch_id!r} in this collection; list its files."


class AmbiguousCollectionError(RetrievalError):
    """Several collections have the name that was asked for."""

    def __init__(self, name: str, ids: Sequence[str]) -> None:
        self.name = name
        self.ids = tuple(ids)
        super().__init__(name, self.ids)

    def __str__(self) -> str:
        return (
            f"{len(self.ids)} collections are named {self.name!r}; "
            f"name one by its id: {', '.join(self.ids)}."
        )


class CollectionFileNotFoundError(RetrievalError):
    """The collection doesn't hold this file."""

    def __init__(self, collection_id: str, file_id: str) -> None:
        self.collection_id = collection_id
        self.file_id = file_id
        super().__init__(collection_id, file_id)

    def __str__(self) -> str:
        return f"Collection {self.collection_id!r} doesn't hold the file {self.file_id!r}; add it."


class InvalidSearchError(RetrievalError):
    """The search can't be run as asked."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)

    def __str__(self) -> str:
        return f"The search can't be run: {self.why}."


class InvalidFilterError(RetrievalError):
    """A filter on attributes is not one."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(path, problem)

    def __str__(self) -> str:
        return f"The filter can't be used: {self.path!r} is wrong: {self.problem}."


class NotInListError(RetrievalError):
    """A page of a list is to begin or end at what the list doesn't have."""

    def __init__(self, param: str, item_id: str) -> None:
        self.param = param
        self.item_id = item_id
        super().__init__(param, item_id)

    def __str__(self) -> str:
        return (
            f"{self.param}: {self.item_id!r} is not in this list; give the id of one of its items, "
            "or start from its beginning."
        )


class RerankerError(RetrievalError):
    """The re-ranking model can't be loaded or gave something unusable."""

    def __init__(self, model: str, why: str) -> None:
        self.model = model
        self.why = why
        super().__init__(model, why)

    def __str__(self) -> str:
        return f"The re-ranking model {self.model!r} can't be used: {self.why}"


class IndexNotFoundError(RetrievalError):
    """There is no saved index in this folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def __str__(self) -> str:
        return f"There is no index in {str(self.path)!r}; build and save one."


class IndexManifestError(RetrievalError):
    """The index was built from something else than what it is to be used with."""

    def __init__(self, field: str, expected: object, found: object) -> None:
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(field, expected, found)

    def __str__(self) -> str:
        return (
            f"The index has {self.field} {self.found!r} where {self.expected!r} is expected; "
            "use the model it was built with, or ingest the documents into a new collection."
        )


class IndexDamagedError(RetrievalError):
    """The saved index is not what its manifest says."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(path, why)

    def __str__(self) -> str:
        return f"The index in {str(self.path)!r} is damaged ({self.why}); delete it to rebuild it."


class EmbedderError(RetrievalError):
    """The embedding model can't be loaded or gave something unusable."""

    def __init__(self, embedder: str, why: str) -> None:
        self.embedder = embedder
        self.why = why
        super().__init__(embedder, why)

    def __str__(self) -> str:
        return f"The embedding model {self.embedder!r} can't be used: {self.why}"


class EmbedderBusyError(EmbedderError):
    """More is waiting for the embedding model than it can do in time; try again later."""


class EmbedderUnavailableError(EmbedderError):
    """The embedding model can't be loaded, or its process doesn't live; no text's fault."""


class StorageError(RetrievalError):
    """The disk or the database refused; nothing was acknowledged."""

    def __init__(self, where: str, why: str) -> None:
        self.where = where
        self.why = why
        super().__init__(where, why)

    def __str__(self) -> str:
        return (
            f"{self.where} refused the operation ({self.why}); nothing was changed. "
            "Check free space and permissions, then try again."
        )


class StorageAwayError(StorageError):
    """The database can't be reached now, or is locked. `why` is for the log: it names places."""

    headers: Final = {"retry-after": "2"}

    def __str__(self) -> str:
        return f"{self.where} can't be reached now; nothing was changed. Try again in a moment."


class IndexVanishedError(StorageError):
    """What a search was looking at is no more there; it can be made again."""


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
