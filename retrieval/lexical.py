"""BM25 over a collection's chunks, exact at every moment whatever came and went before.

As the vectors do, a view has a base and a tail, and passes over what was removed. Statistics are
of what is there now: the same documents give the same scores bit by bit, however they came to be
there. So a segment holds only counts, and scores are made when a question is asked.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009;
the weight of a term as in Lucene, which is never negative.
"""

import math
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

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
    Scores,
    best,
    document_positions,
    merged,
    no_hits,
)
from retrieval.lexical_files import load_segment, save_segment
from retrieval.lexical_segment import Segment, joined, segment_of
from retrieval.lexical_terms import Terms
from retrieval.records import Collection
from retrieval.search_rows import chunk_digests, digest_of_ids, select_texts

# See `retrieval.vectors.faiss_backend`.
_SMALL_TAIL = 1024
_SHARE = 8
_REMEMBERED = 16
# Of a question longer than this, the rarest terms are looked for.
_MOST_TERMS = 64
# A term that more than a quarter of the chunks have tells them apart little, and costs the most.
_COMMON_SHARE = 4
_COMMON_FROM = 1000

_Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25Settings:
    """BM25's constants, Lucene's defaults.

    Attributes:
        saturation: k1: the larger, the more does a term's tenth occurrence still count.
        length_share: b, 0 to 1: how much a long chunk's counts are discounted.
    """

    saturation: float = 1.2
    length_share: float = 0.75


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's terms, each with its weight.

    Attributes:
        most: the score that a chunk with all terms, each countless times, would have. A term that
            no chunk has counts too, as the rarest that there can be.
    """

    terms: tuple[tuple[str, float], ...]
    most: float


class _Part:
    """A segment and which of its rows are still there."""

    def __init__(self, segment: Segment, alive: Mask | None) -> None:
        self.segment = segment
        self.alive = alive
        self.count = len(segment) if alive is None else int(np.count_nonzero(alive))
        lengths = segment.lengths if alive is None else segment.lengths[alive]
        self.total_length = int(lengths.sum(dtype=np.int64))
        self._remembered: dict[str, Mask] = {}
        self._lock = threading.Lock()

    def without(self, removed: set[int]) -> "_Part":
        """This part with the documents at these positions passed over."""
        gone = np.isin(document_positions(self.segment.places), sorted(removed))
        if not gone.any():
            return self
        return _Part(self.segment, ~gone if self.alive is None else self.alive & ~gone)

    def count_with(self, term: str) -> int:
        """How many chunks have a term."""
        found = self.segment.postings(term)
        if found is None:
            return 0
        return len(found[0]) if self.alive is None else int(self.alive[found[0]].sum())

    def search(
        self, terms: Sequence[tuple[str, float]], norms: _Weights, k: int, allowed: Allowed | None
    ) -> Hits:
        """The k best.

        Args:
            terms: each with its weight.
            norms: (n,) what a count is saturated by in each row.
        """
        rows, weights = [], []
        for term, weight in terms:
            found = self.segment.postings(term)
            if found is not None:
                counts = found[1].astype(np.float64)
                rows.append(found[0])
                weights.append(weight * counts / (counts + norms[found[0]]))
        if not rows:
            return no_hits()
        sums = np.bincount(
            np.concatenate(rows), np.concatenate(weights), minlength=len(self.segment)
        )
        # Rounded before they are compared, so that ties don't depend on which part has the row.
        scores = sums.astype(np.float32)
        mask = self.alive if allowed is None else self._allowed(allowed)
        if mask is not None:
            scores[~mask] = 0.0
        return self._best(scores, k)

    def _best(self, scores: Scores, k: int) -> Hits:
        found = np.flatnonzero(scores)
        if len(found) > k:
            least = np.partition(scores[found], -k)[-k]
            found = found[scores[found] >= least]
        return best(self.segment.places[found], scores[found], k)

    def _allowed(self, allowed: Allowed) -> Mask:
        with self._lock:
            known = self._remembered.get(allowed.key)
        if known is not None:
            return known
        mask = allowed.documents[document_positions(self.segment.places)]
        if self.alive is not None:
            mask &= self.alive
        with self._lock:
            self._remembered[allowed.key] = mask
            while len(self._remembered) > _REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
        return mask


class LexicalView:
    """A collection's words at one moment; any number of threads may search it.

    Attributes:
        digests: of the chunk ids of each document.
    """

    def __init__(
        self,
        documents: tuple[DocumentKey, ...],
        base: _Part,
        tail: _Part,
        digests: dict[DocumentKey, bytes],
        settings: Bm25Settings,
    ) -> None:
        self.documents = documents
        self.base = base
        self.tail = tail
        self.digests = digests
        self._settings = settings
        self._parts = [(part, self._norms(part.segment)) for part in (base, tail) if part.count]

    def __len__(self) -> int:
        return self.base.count + self.tail.count

    def search(self, terms: Sequence[str], k: int, allowed: Allowed | None = None) -> Hits:
        """The k best by BM25; chunks that have none of the terms are not found.

        Args:
            terms: different ones, in the order in which their scores are added.
        """
        return self.find(self.weigh(terms), k, allowed)

    def find(self, asked: Asked, k: int, allowed: Allowed | None = None) -> Hits:
        """The k best; see `search`."""
        found = [part.search(asked.terms, norms, k, allowed) for part, norms in self._parts]
        return merged(found, k) if found else no_hits()

    def weigh(self, terms: Sequence[str]) -> Asked:
        """The terms that are looked for, each with its weight."""
        total = len(self)
        counted = [
            (term, self.base.count_with(term) + self.tail.count_with(term)) for term in terms
        ]
        there = [(term, count) for term, count in counted if count]
        absent = len(counted) - len(there)
        if total >= _COMMON_FROM:
            rare = [(term, count) for term, count in there if count * _COMMON_SHARE <= total]
            there = rare or there
        if len(there) > _MOST_TERMS:
            rarest = sorted(there, key=lambda pair: (pair[1], pair[0]))[:_MOST_TERMS]
            there = [pair for pair in there if pair in set(rarest)]
        weighted = tuple((term, self._weight(count, total)) for term, count in there)
        most = sum(weight for _, weight in weighted) + absent * self._weight(0, total)
        return Asked(weighted, most if total else 0.0)

    def _weight(self, count: int, total: int) -> float:
        rarity = math.log1p((total - count + 0.5) / (count + 0.5))
        return rarity * (self._settings.saturation + 1)

    def _norms(self, segment: Segment) -> _Weights:
        total_length = self.base.total_length + self.tail.total_length
        relative = segment.lengths / (max(total_length, 1) / len(self))
        b = self._settings.length_share
        return self._settings.saturation * (1 - b + b * relative)


class LexicalIndexes:
    """The words of all collections, in memory and on disk; works as a `VectorBackend` does.

    Args:
        folder: one folder for each collection is made in it.
    """

    def __init__(self, folder: Path, *, settings: Bm25Settings | None = None) -> None:
        self._folder = folder
        self._settings = settings or Bm25Settings()

    def view(
        self,
        connection: Connection,
        collection: Collection,
        documents: tuple[DocumentKey, ...],
        held: LexicalView | None,
    ) -> LexicalView:
        """The collection's words at these documents; see `VectorBackend.view`."""
        if held is None:
            held = self._loaded(connection, collection, documents) or self._empty()
        known, wanted = set(held.documents), set(documents)
        removed = {key.position for key in known - wanted}
        added = [key for key in documents if key not in known]
        if not removed and not added:
            return held
        base, tail = held.base.without(removed), held.tail.without(removed)
        digests = {key: held.digests[key] for key in held.documents if key in wanted}
        if added:
            new, new_digests = _read(connection, collection, added)
            tail = _Part(joined([(tail.segment, tail.alive), (new, None)]), None)
            digests |= {key: new_digests.get(key, b"") for key in added}
        return LexicalView(documents, base, tail, digests, self._settings)

    def rebuilt(self, collection: Collection, view: LexicalView) -> LexicalView | None:
        """A view of the same documents as one base, saved too; None where none is needed."""
        holes = len(view.base.segment) - view.base.count
        allowed = max(_SMALL_TAIL, view.base.count // _SHARE)
        if view.tail.count <= allowed and holes <= allowed:
            return None
        parts = [(part.segment, part.alive) for part in (view.base, view.tail)]
        segment = joined(parts)
        # A full disk costs a rebuild at the next start, not the search.
        with suppress(StorageError):
            save_segment(self._folder / collection.id, segment, view.digests)
        return self._from_base(segment, view.digests)

    def forget(self, collection_id: str) -> None:
        """Removes a deleted collection's files."""
        shutil.rmtree(self._folder / collection_id, ignore_errors=True)

    def held(self) -> set[str]:
        """Ids of the collections that something is held for on disk."""
        return {path.name for path in self._folder.glob("*/")}

    def _loaded(
        self, connection: Connection, collection: Collection, documents: tuple[DocumentKey, ...]
    ) -> LexicalView | None:
        with suppress(IndexNotFoundError, IndexDamagedError, IndexManifestError):
            segment, saved = load_segment(self._folder / collection.id)
            kept = [key for key in documents if key in saved]
            now = chunk_digests(connection, collection.id, kept)
            left = {key: digest for key, digest in saved.items() if now.get(key) == digest}
            base = _Part(segment, None).without({key.position for key in saved.keys() - left})
            return LexicalView(tuple(sorted(left)), base, _nothing(), left, self._settings)
        return None

    def _from_base(self, segment: Segment, digests: dict[DocumentKey, bytes]) -> LexicalView:
        documents = tuple(sorted(digests))
        return LexicalView(documents, _Part(segment, None), _nothing(), digests, self._settings)

    def _empty(self) -> LexicalView:
        return LexicalView((), _nothing(), _nothing(), {}, self._settings)


def _nothing() -> _Part:
    return _Part(segment_of([]), None)


def _read(
    connection: Connection, collection: Collection, keys: Sequence[DocumentKey]
) -> tuple[Segment, dict[DocumentKey, bytes]]:
    terms = Terms()
    ids: dict[DocumentKey, list[str]] = {}
    chunks = []
    for key, place, chunk_id, text in select_texts(connection, collection.id, keys):
        ids.setdefault(key, []).append(chunk_id)
        chunks.append((place, terms.of(text)))
    return segment_of(chunks), {key: digest_of_ids(each) for key, each in ids.items()}
