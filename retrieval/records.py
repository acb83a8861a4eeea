"""What is stored about files and collections, as plain values."""

from dataclasses import dataclass
from enum import StrEnum


class FileStatus(StrEnum):
    """Whether a collection holds a file."""

    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An uploaded file.

    Attributes:
        id: `file-…`, made from tenant, purpose, name and content: the same upload is the same file.
        digest: of the bytes.
        created_at: seconds since the epoch, UTC.
    """

    id: str
    tenant: str
    name: str
    purpose: str
    size_bytes: int
    digest: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileError:
    """Why a file is not in a collection."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionFile:
    """A file's place in a collection.

    Attributes:
        document_id: the document it became; None when it failed.
        chunk_count: 0 when it failed.
        last_error: None when it is completed.
    """

    collection_id: str
    file_id: str
    status: FileStatus
    document_id: str | None
    chunk_count: int
    last_error: FileError | None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A set of documents.

    Attributes:
        id: `vs_…`.
        embedder, dimension: of the model that its vectors were made by.
        revision: grows with each change of its documents.
        created_at: seconds since the epoch, UTC.
    """

    id: str
    tenant: str
    name: str
    embedder: str
    dimension: int
    revision: int
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSize:
    """How much a collection holds.

    Attributes:
        token_count: of all documents' texts, by the tokenizer that chunks are measured by.
        file_bytes: of the completed files.
    """

    completed_files: int
    failed_files: int
    file_bytes: int
    document_count: int
    chunk_count: int
    token_count: int
