"""A question in, the chunks that answer it out, best first: vectors and words, fused.

Each search reads the collection's record and the chunks it found from the database, and nothing
else: the indexes are brought up only when the collection's revision has changed.
"""

from collections.abc import Collection as CollectionOf
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from sqlalchemy import Engine

from retrieval import chunk_store, store
from retrieval.catalog import IndexCatalog, Snapshot
from retrieval.collection_records import check_embedder
from retrieval.documents import Chunk, ScoredChunk
from retrieval.embed import Embedder, Vectors
from retrieval.errors import EmbedderError, IndexVanishedError, InvalidSearchError
from retrieval.filters import Filter
from retrieval.fusion import FusionSettings, Ranking, fuse
from retrieval.index_views import Allowed, Hits, document_position, no_hits
from retrieval.lexical_terms import query_terms
from retrieval.records import Collection
from retrieval.rerank import Reranker
from retrieval.search_rows import Holder
from retrieval.transactions import snapshot as reading

MAX_RESULTS = 64
# What a question may have: room for a whole file's text; more is a mistake.
MAX_QUERY_CHARACTERS = 1_000_000
# No embedding model reads further; cutting words costs time.
_EMBEDDED_CHARACTERS = 65_536
_MOST_COSINE = 1.0


class SearchMode(StrEnum):
    """What a search looks at."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    LEXICAL = "lexical"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How a search finds.

    Attributes:
        candidates: how deep each ranking is looked at for fusing, at least 4 k. What is not
            among the first 64 of either is no answer, and deeper costs time.
        rerank_candidates: how many of the best are given to the re-ranker, at least k: each
            costs it a pass over question and chunk.
    """

    fusion: FusionSettings = field(default_factory=FusionSettings)
    candidates: int = 64
    rerank_candidates: int = 24


@dataclass(frozen=True, slots=True)
class _Found:
    """A place with its scores, before its chunk is read."""

    place: int
    score: float
    vector_score: float | None
    lexical_score: float | None

    def scored(self, chunk: Chunk) -> ScoredChunk:
        return ScoredChunk(
            chunk=chunk,
            score=self.score,
            vector_score=self.vector_score,
            lexical_score=self.lexical_score,
        )


class Searcher:
    """Searches collections. Every call blocks; any thread may call.

    Args:
        engine: of the database with retrieval's tables.
        reranker: None: asking for re-ranking is an error.
    """

    def __init__(
        self,
        engine: Engine,
        catalog: IndexCatalog,
        embedder: Embedder,
        *,
        settings: SearchSettings | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._engine = engine
        self._catalog = catalog
        self._embedder = embedder
        self._settings = settings or SearchSettings()
        self._reranker = reranker

    def search(
        self,
        collection_id: str,
        query: str,
        k: int = 8,
        *,
        tenant: str,
        filters: Filter | None = None,
        groups: CollectionOf[str] = (),
        mode: SearchMode | str = SearchMode.HYBRID,
        rerank: bool = False,
        known: Collection | None = None,
    ) -> list[ScoredChunk]:
        """The k chunks that fit the query best, best first; fewer only if fewer are allowed.

        Args:
            known: the collection, if the caller has just read it: it isn't read again.
            filters: only chunks of files whose attributes match.
            groups: of the one who asks; files with access groups are found by these only.

        Raises:
            InvalidSearchError: an empty query, k not 1 to 64, an unknown mode, no re-ranker.
            CollectionNotFoundError: not this tenant's, or deleted while this ran.
            IndexManifestError: the collection was made with another embedding model.
            EmbedderError, RerankerError, StorageError
        """
        asked = _checked_mode(query, k, mode)
        # Half of a surrogate pair, which JSON can carry, is no text for any tokenizer.
        query = query.encode("utf-8", "replace").decode()
        if rerank and self._reranker is None:
            raise InvalidSearchError("re-ranking was asked for and no re-ranker is set up")
        snapshot = self._held(known, asked) or self._read(collection_id, tenant, asked)
        wanted = max(k, self._settings.rerank_candidates) if rerank else k
        try:
            found = self._ranked(snapshot, query, wanted, asked, snapshot.allowed(filters, groups))
        except IndexVanishedError:
            self._catalog.distrust(snapshot)
            snapshot = self._read(collection_id, tenant, asked)
            found = self._ranked(snapshot, query, wanted, asked, snapshot.allowed(filters, groups))
        chunks = self._chunks(snapshot, found[:wanted], filters, groups)
        if not chunks and found:
            self._check_exists(collection_id, tenant)
        return self._reranked(query, chunks)[:k] if rerank else chunks

    def _held(self, known: Collection | None, mode: SearchMode) -> Snapshot | None:
        if known is None:
            return None
        self._check(known, mode)
        return self._catalog.held(known)

    def _read(self, collection_id: str, tenant: str, mode: SearchMode) -> Snapshot:
        with reading(self._engine) as connection:
            collection = store.select_collection(connection, collection_id, tenant)
            self._check(collection, mode)
            return self._catalog.current(connection, collection)

    def _check(self, collection: Collection, mode: SearchMode) -> None:
        if mode is not SearchMode.LEXICAL:
            check_embedder(collection, self._embedder)

    def _ranked(
        self,
        snapshot: Snapshot,
        query: str,
        wanted: int,
        mode: SearchMode,
        allowed: Allowed | None,
    ) -> list[_Found]:
        """What was found, best first."""
        deep = (
            wanted if mode is not SearchMode.HYBRID else max(4 * wanted, self._settings.candidates)
        )
        vectors = lexical = no_hits()
        most = 0.0
        if mode is not SearchMode.LEXICAL and len(snapshot.vectors):
            vectors = snapshot.vectors.search(self._embedded(query), deep, allowed)
        if mode is not SearchMode.VECTOR:
            asked = snapshot.lexical.weigh(query_terms(query))
            lexical, most = snapshot.lexical.find(asked, deep, allowed), asked.most
        return _ordered(vectors, lexical, most, mode, self._settings.fusion)

    def _embedded(self, query: str) -> Vectors:
        vector = self._embedder.embed_query(query[:_EMBEDDED_CHARACTERS])
        expected = (1, self._embedder.dimension)
        if vector.shape != expected or not np.isfinite(vector).all():
            raise EmbedderError(
                self._embedder.id, f"it gives {vector.shape} where {expected} is expected."
            )
        return vector

    def _chunks(
        self,
        snapshot: Snapshot,
        found: Sequence[_Found],
        filters: Filter | None,
        groups: CollectionOf[str],
    ) -> list[ScoredChunk]:
        """The found chunks, each cited as a file that the request may find."""
        ids = {one.place: snapshot.chunk_at(one.place) for one in found}
        with reading(self._engine) as connection:
            stored = chunk_store.select_chunks_at(connection, snapshot.collection.id, ids.values())
        scored = []
        for one in found:
            chunk = stored.get(ids[one.place])  # None: removed since the snapshot was made
            holder = snapshot.found_as(document_position(one.place), filters, groups)
            if chunk is not None and holder is not None:
                scored.append(one.scored(_cited_as(chunk, holder)))
        return scored

    def _reranked(self, query: str, chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
        """Equal scores stay in the order of before."""
        assert self._reranker is not None, "checked when the search was asked for"
        scores = self._reranker.scores(query, [shown_text(found.chunk) for found in chunks])
        reranked = [
            replace(found, score=score, rerank_score=score)
            for found, score in zip(chunks, scores, strict=True)
        ]
        return sorted(reranked, key=lambda found: -found.score)

    def _check_exists(self, collection_id: str, tenant: str) -> None:
        """Nothing is left of what was found: an empty answer, unless the collection has gone."""
        with reading(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant)


def shown_text(chunk: Chunk) -> str:
    """A chunk under those headings that it doesn't show itself."""
    titles = [title for title in chunk.heading_path if title not in chunk.text]
    return "\n".join([*titles, chunk.text])


def _ordered(
    vectors: Hits, lexical: Hits, most: float, mode: SearchMode, fusion: FusionSettings
) -> list[_Found]:
    """What was found, best first; `most` is the highest lexical score that could be."""
    by_vector = dict(zip(vectors.places.tolist(), vectors.scores.tolist(), strict=True))
    by_words = dict(zip(lexical.places.tolist(), lexical.scores.tolist(), strict=True))
    match mode:
        case SearchMode.VECTOR:
            ranked = list(by_vector.items())
        case SearchMode.LEXICAL:
            ranked = list(by_words.items())
        case SearchMode.HYBRID:
            ranked = fuse(
                [
                    Ranking(hits=vectors, weight=fusion.vector_weight, most=_MOST_COSINE),
                    Ranking(hits=lexical, weight=fusion.lexical_weight, most=most),
                ]
            )
    return [
        _Found(place, score, by_vector.get(place), by_words.get(place)) for place, score in ranked
    ]


def _cited_as(chunk: Chunk, holder: Holder) -> Chunk:
    if chunk.file_id == holder.file_id:
        return chunk
    return replace(
        chunk,
        file_id=holder.file_id,
        name=holder.name,
        attributes=holder.attributes,
        access=holder.access,
    )


def _checked_mode(query: str, k: int, mode: SearchMode | str) -> SearchMode:
    if not query.strip():
        raise InvalidSearchError("the query is empty")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InvalidSearchError(
            f"the query has {len(query):,} characters, more than {MAX_QUERY_CHARACTERS:,}"
        )
    if not 1 <= k <= MAX_RESULTS:
        raise InvalidSearchError(f"k is {k}, it must be 1 to {MAX_RESULTS}")
    if mode not in list(SearchMode):
        raise InvalidSearchError(f"the mode is {mode!r}, it must be {', '.join(SearchMode)}")
    return SearchMode(mode)
