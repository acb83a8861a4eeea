"""FAISS indexes: which kind for how many vectors, built so that equal rows give equal indexes.

Inner product; with normalised rows the cosine. Everything runs on the calling thread: a search is
shorter than waking others, and only a graph that is built by one thread in a fixed order is the
same graph again. FAISS lets go of the interpreter while it works.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Any

import numpy as np

from retrieval.embed import Vectors
from retrieval.index_views import Mask, Places, Scores

METRIC = "inner_product"


class IndexKind(StrEnum):
    """How an index searches: all rows, a graph of neighbours, or the nearest of many lists."""

    FLAT = "flat"
    HNSW = "hnsw"
    IVF = "ivf"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaissSettings:
    """Which index for how many vectors, and how it is searched. Measured: `docs/search.md`.

    Attributes:
        flat_below: vectors below which all are looked at: 0.6 ms for 10,000 of 384, exact, and
            nothing to build.
        ivf_from: vectors from which lists take the graph's place: a search takes twice as long
            at 100,000, but lists take no memory for links. Not measured at this size.
        hnsw_links: neighbours of each vector in the graph; 8 bytes each and chunk.
        hnsw_build_depth, hnsw_search_depth: candidates that are kept while building and
            searching; more finds more and takes longer.
        ivf_list_length: vectors in a list, on average.
        ivf_probes: lists that are looked at, of all.
        exhaustive_rows: where a filter leaves no more than these, all of them are looked at.
    """

    flat_below: int = 10_000
    ivf_from: int = 1_000_000
    hnsw_links: int = 16
    hnsw_build_depth: int = 80
    hnsw_search_depth: int = 128
    ivf_list_length: int = 256
    ivf_probes: int = 16
    exhaustive_rows: int = 10_000

    def kind_for(self, count: int) -> IndexKind:
        """The kind of index for so many vectors."""
        if count < self.flat_below:
            return IndexKind.FLAT
        return IndexKind.HNSW if count < self.ivf_from else IndexKind.IVF

    def built_with(self, kind: IndexKind) -> dict[str, int]:
        """The parameters that a built index of this kind depends on."""
        match kind:
            case IndexKind.FLAT:
                return {}
            case IndexKind.HNSW:
                return {"links": self.hnsw_links, "build_depth": self.hnsw_build_depth}
            case IndexKind.IVF:
                return {"list_length": self.ivf_list_length}


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Rows that a search may find.

    Attributes:
        count: how many; 0 is allowed.
        selector: FAISS's form of it; None for all rows.
    """

    count: int
    selector: Any


def build(vectors: Vectors, settings: FaissSettings) -> tuple[Any, IndexKind]:
    """An index of these rows in this order.

    Args:
        vectors: (n, d) float32, rows L2-normalised.
    """
    faiss = faiss_module()
    count, dimension = vectors.shape
    kind = settings.kind_for(count)
    metric = faiss.METRIC_INNER_PRODUCT
    with _one_thread(faiss):
        match kind:
            case IndexKind.FLAT:
                index = faiss.IndexFlatIP(dimension)
            case IndexKind.HNSW:
                index = faiss.IndexHNSWFlat(dimension, settings.hnsw_links, metric)
                index.hnsw.efConstruction = settings.hnsw_build_depth
            case IndexKind.IVF:
                lists = max(1, count // settings.ivf_list_length)
                index = faiss.index_factory(dimension, f"IVF{lists},Flat", metric)
                index.train(vectors)
        index.add(np.ascontiguousarray(vectors))
    return index, kind


def select(mask: Mask | None, count: int) -> Selection:
    """A selection of the rows where a mask is true; None: of all `count` rows."""
    if mask is None:
        return Selection(count, None)
    bits = np.packbits(mask, bitorder="little")
    return Selection(int(np.count_nonzero(mask)), faiss_module().IDSelectorBitmap(bits))


def search_rows(
    index: Any,
    kind: IndexKind,
    query: Vectors,
    k: int,
    selection: Selection,
    settings: FaissSettings,
) -> tuple[Places, Scores]:
    """(rows, scores) of the k nearest selected rows, or of all that are selected if they are fewer.

    The approximate kinds are asked first where that is quicker; whenever they find too few, all
    selected rows are looked at.
    """
    k = min(k, selection.count)
    if k == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    if kind is not IndexKind.FLAT and selection.count > settings.exhaustive_rows:
        rows, scores = _approximate(index, kind, query, k, selection, settings)
        if len(rows) == k:
            return rows, scores
    return _exhaustive(index, kind, query, k, selection)


def vectors_of(index: Any) -> Vectors:
    """All vectors by row: (n, d) float32, a copy."""
    return np.asarray(index.reconstruct_n(0, index.ntotal), np.float32)


def faiss_module() -> ModuleType:
    """FAISS, imported at first use: it takes half a second and a thread pool."""
    import faiss

    return faiss


def _approximate(
    index: Any,
    kind: IndexKind,
    query: Vectors,
    k: int,
    selection: Selection,
    settings: FaissSettings,
) -> tuple[Places, Scores]:
    faiss = faiss_module()
    # What isn't selected takes up candidates too.
    wider = index.ntotal / selection.count
    if kind is IndexKind.HNSW:
        depth = max(2 * k, round(settings.hnsw_search_depth * wider))
        parameters = faiss.SearchParametersHNSW(efSearch=depth, sel=selection.selector)
    else:
        probes = min(index.nlist, round(settings.ivf_probes * wider))
        parameters = faiss.SearchParametersIVF(nprobe=probes, sel=selection.selector)
    return _found(index.search(query, k, params=parameters))


def _exhaustive(
    index: Any, kind: IndexKind, query: Vectors, k: int, selection: Selection
) -> tuple[Places, Scores]:
    faiss = faiss_module()
    if kind is IndexKind.IVF:
        all_lists = faiss.SearchParametersIVF(nprobe=index.nlist, sel=selection.selector)
        return _found(index.search(query, k, params=all_lists))
    flat = index if kind is IndexKind.FLAT else faiss.downcast_index(index.storage)
    parameters = faiss.SearchParameters(sel=selection.selector)
    return _found(flat.search(query, k, params=parameters))


def _found(result: tuple[Any, Any]) -> tuple[Places, Scores]:
    scores, rows = result
    there = rows[0] >= 0
    return rows[0][there], scores[0][there]


@contextmanager
def _one_thread(faiss: ModuleType) -> Iterator[None]:
    """Only for the calling thread: OpenMP keeps this number for each."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
