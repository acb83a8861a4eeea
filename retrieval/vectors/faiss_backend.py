"""Vectors in this process: a built index, what came since, and what has gone since.

A view has a **base**, which is built once and never changed, and a **tail** of vectors that came
later, which is searched exhaustively. Removed documents are passed over. So a change costs what it
changes, and is seen by the next search; when tail or holes have grown, a new base is built beside
the searches, from the vectors in memory, in canonical order. Bases are kept on disk.
"""

import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection

from retrieval.embed import Vectors
from retrieval.errors import (
    IndexDamagedError,
    IndexManifestError,
    IndexNotFoundError,
    StorageError,
)
from retrieval.index_views import (
    Allowed,
    DocumentKey,
    Hits,
    Mask,
    Places,
    VectorView,
    best,
    document_positions,
    merged,
)
from retrieval.records import Collection
from retrieval.search_rows import chunk_digests, select_vectors
from retrieval.vectors.faiss_files import SavedBase, load_base, save_base
from retrieval.vectors.faiss_index import (
    FaissSettings,
    IndexKind,
    Selection,
    build,
    search_rows,
    select,
    vectors_of,
)

# A tail shorter than this costs a search little and isn't worth a file.
_SMALL_TAIL = 1024
# Tail or holes beyond this share of the base: it is built anew. Each vector is built into about
# nine bases while a collection grows, and the tail of 100,000 is searched in 0.7 ms at most.
_SHARE = 8
# Filters whose rows a view remembers.
_REMEMBERED = 16
# Beyond k, so that among equal scores at the end the first in canonical order is taken.
_TIES = 16


class _Part:
    """Rows of an index and which of them are still there. Immutable but for what it remembers."""

    def __init__(self, index: Any, kind: IndexKind, places: Places, alive: Mask | None) -> None:
        self.index = index
        self.kind = kind
        self.places = places
        self.alive = alive
        self.selection = select(alive, len(places))
        self._remembered: dict[str, Selection] = {}
        self._lock = threading.Lock()

    def search(
        self, query: Vectors, k: int, allowed: Allowed | None, settings: FaissSettings
    ) -> Hits:
        selection = self.selection if allowed is None else self._selected(allowed)
        rows, scores = search_rows(self.index, self.kind, query, k + _TIES, selection, settings)
        return best(self.places[rows], scores, k)

    def without(self, removed: set[int]) -> "_Part":
        """This part with the documents at these positions passed over."""
        gone = np.isin(document_positions(self.places), sorted(removed))
        if not gone.any():
            return self
        alive = ~gone if self.alive is None else self.alive & ~gone
        return _Part(self.index, self.kind, self.places, alive)

    def rows(self) -> tuple[Places, Vectors]:
        """What is still there: places and vectors."""
        vectors = vectors_of(self.index)
        if self.alive is None:
            return self.places, vectors
        return self.places[self.alive], vectors[self.alive]

    def _selected(self, allowed: Allowed) -> Selection:
        with self._lock:
            known = self._remembered.get(allowed.key)
        if known is not None:
            return known
        mask = allowed.documents[document_positions(self.places)] if len(self.places) else None
        if mask is not None and self.alive is not None:
            mask &= self.alive
        selection = select(mask, len(self.places))
        with self._lock:
            self._remembered[allowed.key] = selection
            while len(self._remembered) > _REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
        return selection


@dataclass(frozen=True, slots=True, eq=False)
class FaissView:
    """A collection's vectors at one moment.

    Attributes:
        digests: of the chunk ids of each document.
    """

    documents: tuple[DocumentKey, ...]
    base: _Part
    tail: _Part
    digests: dict[DocumentKey, bytes]
    settings: FaissSettings

    def __len__(self) -> int:
        return self.base.selection.count + self.tail.selection.count

    def search(self, query: Vectors, k: int, allowed: Allowed | None = None) -> Hits:
        """See `VectorView.search`. Exact where the base is flat or few rows are allowed."""
        parts = [part for part in (self.base, self.tail) if part.selection.count]
        found = [part.search(query, k, allowed, self.settings) for part in parts]
        return merged(found, k) if found else best(_no_places(), np.empty(0, np.float32), k)


class FaissBackend:
    """FAISS indexes of all collections, in memory and on disk.

    Args:
        folder: one folder for each collection is made in it.
    """

    def __init__(self, folder: Path, *, settings: FaissSettings | None = None) -> None:
        self._folder = folder
        self._settings = settings or FaissSettings()

    def view(
        self,
        connection: Connection,
        collection: Collection,
        documents: tuple[DocumentKey, ...],
        held: VectorView | None,
    ) -> FaissView:
        """See `VectorBackend.view`."""
        assert held is None or isinstance(held, FaissView), "a view of this backend"
        if held is None:
            held = self._loaded(connection, collection, documents) or self._empty(collection)
        known, wanted = set(held.documents), set(documents)
        removed = {key.position for key in known - wanted}
        added = [key for key in documents if key not in known]
        if not removed and not added:
            return held
        base, tail = held.base.without(removed), held.tail.without(removed)
        digests = {key: held.digests[key] for key in held.documents if key in wanted}
        if added:
            new = select_vectors(connection, collection.id, added, dimension=collection.dimension)
            tail = _extended(tail, new.places, new.vectors)
            digests |= {key: new.digests.get(key, b"") for key in added}
        return FaissView(documents, base, tail, digests, self._settings)

    def rebuilt(self, collection: Collection, view: VectorView) -> FaissView | None:
        """See `VectorBackend.rebuilt`: a new base of all that is there, which is saved too."""
        assert isinstance(view, FaissView), "a view of this backend"
        if not _is_worn(view):
            return None
        places, vectors = _sorted(*_joined(view))
        index, kind = build(vectors, self._settings)
        saved = SavedBase(index, kind, places, view.digests)
        # A full disk costs a rebuild at the next start, not the search.
        with suppress(StorageError):
            save_base(
                self._folder / collection.id,
                saved,
                embedder=collection.embedder,
                settings=self._settings,
            )
        return self._from_base(collection, saved)

    def forget(self, collection_id: str) -> None:
        """Removes a deleted collection's files."""
        shutil.rmtree(self._folder / collection_id, ignore_errors=True)

    def held(self) -> set[str]:
        """See `VectorBackend.held`."""
        return {path.name for path in self._folder.glob("*/")}

    def _loaded(
        self,
        connection: Connection,
        collection: Collection,
        documents: tuple[DocumentKey, ...],
    ) -> FaissView | None:
        """The saved base as far as it fits, None where there is none to be used."""
        with suppress(IndexNotFoundError, IndexDamagedError, IndexManifestError):
            saved = load_base(
                self._folder / collection.id,
                dimension=collection.dimension,
                embedder=collection.embedder,
                settings=self._settings,
            )
            kept = [key for key in documents if key in saved.digests]
            now = chunk_digests(connection, collection.id, kept)
            stale = {key for key, digest in saved.digests.items() if now.get(key) != digest}
            view = self._from_base(collection, saved)
            left = {key: digest for key, digest in saved.digests.items() if key not in stale}
            return FaissView(
                documents=tuple(sorted(left)),
                base=view.base.without({key.position for key in stale}),
                tail=view.tail,
                digests=left,
                settings=self._settings,
            )
        return None

    def _from_base(self, collection: Collection, saved: SavedBase) -> FaissView:
        return FaissView(
            documents=tuple(sorted(saved.digests)),
            base=_Part(saved.index, saved.kind, saved.places, None),
            tail=_empty_part(collection.dimension),
            digests=dict(saved.digests),
            settings=self._settings,
        )

    def _empty(self, collection: Collection) -> FaissView:
        nothing = _empty_part(collection.dimension)
        return FaissView((), nothing, nothing, {}, self._settings)


def _is_worn(view: FaissView) -> bool:
    """Whether the base should be built anew."""
    holes = len(view.base.places) - view.base.selection.count
    allowed = max(_SMALL_TAIL, view.base.selection.count // _SHARE)
    return view.tail.selection.count > allowed or holes > allowed


def _extended(part: _Part, places: Places, vectors: Vectors) -> _Part:
    """A flat part with more rows, without those that have gone, in canonical order."""
    old_places, old_vectors = part.rows()
    return _flat(
        *_sorted(np.concatenate([old_places, places]), np.concatenate([old_vectors, vectors]))
    )


def _sorted(places: Places, vectors: Vectors) -> tuple[Places, Vectors]:
    if (np.diff(places) > 0).all():
        return places, vectors
    order = np.argsort(places)
    return places[order], vectors[order]


def _joined(view: FaissView) -> tuple[Places, Vectors]:
    base, tail = view.base.rows(), view.tail.rows()
    return np.concatenate([base[0], tail[0]]), np.concatenate([base[1], tail[1]])


def _flat(places: Places, vectors: Vectors) -> _Part:
    index, kind = build(vectors, _ALWAYS_FLAT)
    return _Part(index, kind, places, None)


def _empty_part(dimension: int) -> _Part:
    return _flat(_no_places(), np.empty((0, dimension), np.float32))


def _no_places() -> Places:
    return np.empty(0, np.int64)


_ALWAYS_FLAT = FaissSettings(flat_below=2**62)
