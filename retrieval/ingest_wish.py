"""What is asked of an ingest, and what came of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from retrieval.documents import AttributeValue
from retrieval.embed import Vectors
from retrieval.embeddings import text_digest
from retrieval.prepare import PreparedDocument, embedding_text
from retrieval.record_checks import checked_access, checked_attributes
from retrieval.records import CollectionFile, FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a file is to be held.

    Attributes:
        attributes, access: None keeps what the file has, at first nothing.
        queued: only as long as the queue has it: not when it was cancelled or removed meanwhile.
        supersedes: other files of its name leave the collection in the same transaction.
        stopping: asked between slices; true ends the work with `IngestStoppedError`.
    """

    attributes: Mapping[str, AttributeValue] | None = None
    access: tuple[str, ...] | None = None
    queued: bool = False
    supersedes: bool = False
    stopping: Callable[[], bool] = field(default=lambda: False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of a file.

    Attributes:
        file: its place in the collection.
        embedded: chunks that needed the model.
        reused: chunks whose vector was known.
        superseded: ids of the files that left for it.
    """

    file: CollectionFile
    embedded: int = 0
    reused: int = 0
    superseded: tuple[str, ...] = ()


def checked_wish(
    attributes: Mapping[str, AttributeValue] | None, access: Iterable[str] | None
) -> Wish:
    """What a client asks for. Raises InvalidCollectionError: it can't be stored."""
    return Wish(
        attributes=None if attributes is None else checked_attributes(attributes),
        access=None if access is None else checked_access(access),
    )


class IngestStoppedError(Exception):
    """The work was broken off in good order; nothing was added. Never leaves the package."""


class NotWaitedForError(Exception):
    """The file was cancelled or removed while it was worked on. Never leaves the package."""


class DocumentWords:
    """A document's words by digest, and the vectors found so far."""

    def __init__(self, prepared: PreparedDocument) -> None:
        self.prepared = prepared
        texts = [embedding_text(passage) for passage in prepared.passages]
        self.digests = [text_digest(words) for words in texts]
        self.words = dict(zip(self.digests, texts, strict=True))
        self._copies = Counter(self.digests)
        self.vectors: dict[str, Vectors] = {}
        self.reused = 0

    @property
    def is_complete(self) -> bool:
        return all(digest in self.vectors for digest in self.words)

    def count(self, digests: Iterable[str]) -> int:
        """Passages that have these digests."""
        return sum(self._copies[digest] for digest in digests)

    def missing(self) -> list[str]:
        """Digests without a vector, each once, in order."""
        return [digest for digest in self.words if digest not in self.vectors]


def is_as_wished(known: CollectionFile, wish: Wish) -> bool:
    """Whether a file needs no work at all."""
    return (
        known.status is FileStatus.COMPLETED
        and not wish.supersedes
        and (wish.attributes is None or _typed(wish.attributes) == _typed(known.attributes))
        and wish.access in (None, known.access)
    )


def as_wished(file: CollectionFile, known: CollectionFile | None, wish: Wish) -> CollectionFile:
    """The file with the attributes, access and batch that it is to have."""
    before = known or file
    return replace(
        file,
        attributes=before.attributes if wish.attributes is None else wish.attributes,
        access=before.access if wish.access is None else wish.access,
        batch_id=before.batch_id,
    )


def _typed(attributes: Mapping[str, AttributeValue]) -> dict[str, tuple[type, AttributeValue]]:
    """For comparing: to Python, 1 is True, and to filters it isn't."""
    return {key: (type(value), value) for key, value in attributes.items()}
