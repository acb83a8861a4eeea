"""What is stored about files and collections, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from retrieval.documents import AttributeValue, Chunk, Document

DAY_S = 86_400
# An expired collection answers nothing, but what it holds stays this long and can be had back.
KEPT_AFTER_EXPIRY_DAYS = 30


class Unset(Enum):
    """What says that a value is to stay as it is, where `None` is a value."""

    UNSET = "unset"


UNSET = Unset.UNSET


class FileStatus(StrEnum):
    """Whether a collection holds a file."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class IngestStage(StrEnum):
    """How far a file has come on its way into a collection."""

    WAITING = "waiting"
    READING = "reading"
    EMBEDDING = "embedding"
    STORING = "storing"
    ENDED = "ended"


class CollectionStatus(StrEnum):
    """Whether a collection can be asked."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    EXPIRED = "expired"


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
        document_id: the document it became; None unless it is completed.
        chunk_count: 0 unless it is completed.
        last_error: None unless it failed.
        attributes: what filters look at.
        access: groups of which a request must have one to find it; empty: all of the tenant.
        batch_id: the batch it last came with.
        usage_bytes: what its document's text and vectors take; shared ones count for each file.
    """

    collection_id: str
    file_id: str
    status: FileStatus
    document_id: str | None
    chunk_count: int
    last_error: FileError | None
    created_at: int
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict, hash=False)
    access: tuple[str, ...] = ()
    batch_id: str | None = None
    usage_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A set of documents.

    Attributes:
        id: `vs_…`.
        embedder, dimension: of the model that its vectors were made by.
        revision: grows with each change of its documents, their attributes and access.
        created_at: seconds since the epoch, UTC.
        metadata: the client's own.
        expires_after_days: it expires so long after it was last active; None: never.
        last_active_at: when it was last searched, asked or changed; up to a minute behind.
        status: as of when it was read.
        mode: what it is pinned to (auto, rag, cag, hybrid); None leaves it to the policy.
        priority: higher stays in the KV pool before others.
    """

    id: str
    tenant: str
    name: str
    embedder: str
    dimension: int
    revision: int
    created_at: int
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    expires_after_days: int | None = None
    last_active_at: int = 0
    status: CollectionStatus = CollectionStatus.COMPLETED
    mode: str | None = None
    priority: int = 0

    @property
    def expires_at(self) -> int | None:
        """When it expires if nothing happens; None: never."""
        if self.expires_after_days is None:
            return None
        return self.last_active_at + self.expires_after_days * DAY_S

    @property
    def removed_at(self) -> int | None:
        """When an expired collection's data is removed; until then it can be had back."""
        expires_at = self.expires_at
        return None if expires_at is None else expires_at + KEPT_AFTER_EXPIRY_DAYS * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSize:
    """How much a collection holds.

    Attributes:
        token_count: of all documents' texts, by the tokenizer that chunks are measured by.
        file_bytes: of the completed files.
        usage_bytes: what texts and vectors take.
    """

    completed_files: int
    failed_files: int
    file_bytes: int
    document_count: int
    chunk_count: int
    token_count: int
    in_progress_files: int = 0
    cancelled_files: int = 0
    usage_bytes: int = 0

    @property
    def total_files(self) -> int:
        """Files in any state."""
        return (
            self.completed_files + self.failed_files + self.in_progress_files + self.cancelled_files
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A file to be added to a collection, with its own attributes and access.

    Attributes:
        attributes, access: None: those that the file has there, at first none.
    """

    file_id: str
    attributes: Mapping[str, AttributeValue] | None = field(default=None, hash=False)
    access: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """Files that were added together.

    Attributes:
        id: `vsfb_…`.
        status: in progress while one of its files is; failed when all did.
        in_progress … cancelled: its files by status; one that left the collection counts no more.
    """

    id: str
    collection_id: str
    status: FileStatus
    in_progress: int
    completed: int
    failed: int
    cancelled: int
    created_at: int

    @property
    def total(self) -> int:
        """Files in any state."""
        return self.in_progress + self.completed + self.failed + self.cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestProgress:
    """How far a file has come.

    Attributes:
        done_chunks: that have their vector.
        total_chunks: None until the file is read.
        problem: why it waits although its turn has come, such as a full disk; None otherwise.
    """

    stage: IngestStage
    done_chunks: int
    total_chunks: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What `sync` did, by file name, each in the order given.

    Attributes:
        failed: the name and why; an older version of such a file stays.
        embedded_chunks: that needed the model.
        reused_chunks: of the added and replaced files, whose vector was there already.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    failed: Mapping[str, FileError] = field(hash=False)
    embedded_chunks: int
    reused_chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """All of a collection as of one moment.

    Attributes:
        documents, chunks: in canonical order: by ingestion.
        restricted: some document is not for everyone of the tenant.
    """

    documents: tuple[Document, ...]
    chunks: tuple[Chunk, ...]
    revision: int
    restricted: bool
