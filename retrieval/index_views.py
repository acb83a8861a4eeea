"""What a search needs of whatever holds the vectors.

Chunks are named by their **place**: the document's position in the collection and the chunk's in
the document, as one number. Places order as the collection's canonical order does, so that they
also settle ties, whichever backend found them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from retrieval.embed import Vectors
from retrieval.records import Collection

Places = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

# A document's chunks take the lower bits. Their number is bounded far below by the size of a file.
_CHUNK_BITS = 24


@dataclass(frozen=True, slots=True, order=True)
class DocumentKey:
    """A document at its place in a collection: what an index is made of.

    Attributes:
        position: of the document in the collection.
        id: of the document, made from its content; together they name chunks that never change.
    """

    position: int
    id: str


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which documents a search may find.

    Attributes:
        key: equal keys of one view mean equal masks; by it a view keeps what it derives.
        documents: (p,) bool by document position, p one more than the largest.
    """

    key: str
    documents: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """What a search found, best first; equal scores in canonical order.

    Attributes:
        places: (n,) int64.
        scores: (n,) float32, higher is better.
    """

    places: Places
    scores: Scores

    def __len__(self) -> int:
        return len(self.places)


class VectorView(Protocol):
    """A collection's vectors as they were at one moment; any number of threads may search it."""

    @property
    def documents(self) -> tuple[DocumentKey, ...]: ...

    def __len__(self) -> int:
        """How many vectors there are."""
        ...

    def search(self, query: Vectors, k: int, allowed: Allowed | None = None) -> Hits:
        """The k nearest by inner product; fewer only when fewer are allowed.

        Args:
            query: (1, d) float32, L2-normalised.
            allowed: None for all documents.
        """
        ...


class VectorBackend(Protocol):
    """Holds the vectors of all collections. Safe for several threads.

    What it holds is derived: the vectors' home is `chunks.embedding`.
    """

    def view(
        self,
        connection: Connection,
        collection: Collection,
        documents: tuple[DocumentKey, ...],
        held: VectorView | None,
    ) -> VectorView:
        """The collection's vectors at these documents.

        One call for one collection at a time; calls for others run beside it.

        Args:
            connection: of the database that has the embeddings.
            documents: in canonical order.
            held: an earlier view of the collection; what it has isn't read again.
        """
        ...

    def rebuilt(self, collection: Collection, view: VectorView) -> VectorView | None:
        """A view of the same documents that is quicker to search; None where none is needed.

        Takes long and runs beside searches and changes. What changed meanwhile is brought up by
        `view`, which gets the new view as `held`.
        """
        ...

    def forget(self, collection_id: str) -> None:
        """Drops all that is held for a collection; views in use go on, or raise `StorageError`."""
        ...

    def held(self) -> set[str]:
        """Ids of the collections that something is held for, outside of memory."""
        ...


def place_of(document_position: int, chunk_position: int) -> int:
    """A chunk's place as one number."""
    return document_position << _CHUNK_BITS | chunk_position


def document_position(place: int) -> int:
    """The position of a chunk's document."""
    return place >> _CHUNK_BITS


def chunk_position(place: int) -> int:
    """The position of a chunk in its document."""
    return place & (1 << _CHUNK_BITS) - 1


def document_positions(places: Places) -> Places:
    """(n,) int64: the position of each chunk's document."""
    return places >> _CHUNK_BITS


def best(places: Places, scores: Scores, k: int) -> Hits:
    """The k best of what several parts found, in order."""
    order = np.lexsort((places, -scores))[:k]
    return Hits(places[order], scores[order])


def merged(parts: Sequence[Hits], k: int) -> Hits:
    """The k best of several searches over disjoint chunks."""
    places = np.concatenate([part.places for part in parts])
    return best(places, np.concatenate([part.scores for part in parts]), k)


def no_hits() -> Hits:
    """Nothing found."""
    return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
