"""How fast 100,000 chunks are searched, how much is found, and what holding them costs.

    python -m bench.micro.search [--chunks N] [--cache FOLDER] [--kinds N …]

Vectors are real embeddings multiplied by small perturbations (`bench.micro.search_corpus`), stored
in an SQLite database and searched through the same code as in the gateway; only the question's
embedding is left out, which is the model's time. A search runs on one thread; its times are that
thread's CPU time, since neighbours' load is not its doing, and the wall time beside it. Of three
rounds of 1,000 questions the best is taken.
"""

import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
import sqlalchemy
from sqlalchemy import insert

from bench.micro.search_corpus import embedded, passages, perturbed
from retrieval import FaissBackend, FaissSettings, SearchMode, metadata
from retrieval.catalog import IndexCatalog
from retrieval.embed import Vectors
from retrieval.index_views import Scores, VectorView
from retrieval.lexical_terms import query_terms
from retrieval.search import Searcher
from retrieval.store import select_collection
from retrieval.tables import chunks, collection_files, collections, documents, files
from retrieval.vectors.faiss_index import (
    IndexKind,
    Selection,
    build,
    faiss_module,
    search_rows,
    select,
)

K = 8
CHUNKS = 100_000
CACHE = Path(".foreword/bench")
_PER_DOCUMENT = 20
_QUESTIONS = 1_000
_ROUNDS = 3
_ID = "vs_bench"
_TENANT = "bench"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds: CPU time of the searching thread, and wall time."""

    p50: float
    p99: float
    wall_p50: float
    wall_p99: float


@dataclass(slots=True)
class Measured:
    """Figures by name, each with its unit."""

    figures: dict[str, tuple[float, str]] = field(default_factory=dict)

    def note(self, name: str, value: float, unit: str) -> None:
        self.figures[name] = (value, unit)

    def times(self, name: str, times: Times) -> None:
        self.note(f"{name}, p50", times.p50, "ms")
        self.note(f"{name}, p99", times.p99, "ms")
        self.note(f"{name}, p50, wall", times.wall_p50, "ms")
        self.note(f"{name}, p99, wall", times.wall_p99, "ms")

    @contextmanager
    def seconds(self, name: str) -> Iterator[None]:
        """Wall time and this process's CPU time."""
        began, at = time.process_time(), time.perf_counter()
        yield
        self.note(name, time.process_time() - began, "s of CPU")
        self.note(f"{name}, wall", time.perf_counter() - at, "s")


class Prepared:
    """Stands for the embedding model: gives the vectors that were made beforehand, by number."""

    id = "prepared"

    def __init__(self, vectors: Vectors) -> None:
        self.dimension = vectors.shape[1]
        self._vectors = vectors
        self._texts: dict[str, int] = {}

    def known_as(self, texts: Sequence[str]) -> None:
        self._texts = {text: number for number, text in enumerate(texts)}

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._texts[text] for text in texts]]

    def embed_query(self, text: str) -> Vectors:
        return self.embed_passages([text])


def timed(call: Callable[[_T], object], questions: Sequence[_T]) -> Times:
    """The round whose slowest were quickest."""
    gc.collect()
    rounds = []
    for _ in range(_ROUNDS):
        spent, waited = [], []
        for question in questions:
            began, at = time.thread_time_ns(), time.perf_counter_ns()
            call(question)
            spent.append((time.thread_time_ns() - began) / 1e6)
            waited.append((time.perf_counter_ns() - at) / 1e6)
        percentiles = [np.percentile(values, [50, 99]).tolist() for values in (spent, waited)]
        rounds.append(Times(*percentiles[0], *percentiles[1]))
    return min(rounds, key=lambda times: times.p99)


def measure(count: int, cache: Path) -> Measured:
    """All figures but those of other kinds of index."""
    measured = Measured()
    texts = passages()
    with measured.seconds("embedding the passages (0 when they were cached)"):
        real = embedded(texts, cache)
    measured.note("real passages", len(texts), "passages")
    vectors, origins = perturbed(real, count, seed=1)
    queries, asked = perturbed(real, _QUESTIONS, seed=2)
    # A question has the words of a passage's beginning; its number makes it one of its own.
    questions = [f"{' '.join(texts[at].split()[:8])} {n}" for n, at in enumerate(asked)]
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder:
        engine = sqlalchemy.create_engine(f"sqlite:///{folder}/bench.db")
        metadata.create_all(engine)
        with measured.seconds("storing chunks and vectors in SQLite"):
            _store(engine, vectors, [texts[at] for at in origins], start=0)
        embedder = Prepared(queries)
        embedder.known_as(questions)
        _search(engine, Path(folder), embedder, questions, queries, vectors, measured)
        engine.dispose()
    return measured


def _search(
    engine: sqlalchemy.Engine,
    folder: Path,
    embedder: Prepared,
    questions: Sequence[str],
    queries: Vectors,
    vectors: Vectors,
    measured: Measured,
) -> None:
    count = len(vectors)
    with IndexCatalog(engine, folder / "indexes", FaissBackend(folder / "indexes")) as catalog:
        searcher = Searcher(engine, catalog, embedder)
        with measured.seconds("first search, nothing saved"):
            searcher.search(_ID, questions[0], tenant=_TENANT)
        with measured.seconds("building and saving the indexes, beside searches"):
            catalog.settle()
    measured.note("memory", _memory_of(folder) / count, "bytes a chunk")
    with IndexCatalog(engine, folder / "indexes", FaissBackend(folder / "indexes")) as catalog:
        searcher = Searcher(engine, catalog, embedder)
        with measured.seconds("first search after a restart"):
            searcher.search(_ID, questions[0], tenant=_TENANT)
        on_disk = sum(file.stat().st_size for file in (folder / "indexes").rglob("*.*"))
        measured.note("on disk, beside the database", on_disk / count, "bytes a chunk")
        _note_times(searcher, catalog, engine, questions, queries, vectors, measured)
        with engine.begin() as connection:
            _raise(connection)
        _store(engine, queries[:_PER_DOCUMENT], questions[:_PER_DOCUMENT], start=count)
        with measured.seconds("first search after a document of 20 chunks came"):
            searcher.search(_ID, questions[1], tenant=_TENANT)


def _note_times(
    searcher: Searcher,
    catalog: IndexCatalog,
    engine: sqlalchemy.Engine,
    questions: Sequence[str],
    queries: Vectors,
    vectors: Vectors,
    measured: Measured,
) -> None:
    with engine.connect() as connection:
        snapshot = catalog.current(connection, select_collection(connection, _ID, _TENANT))
    rows = [query[None] for query in queries]
    measured.times("vectors alone", timed(lambda q: snapshot.vectors.search(q, K), rows))
    measured.note("recall@8 of flat", _recall(snapshot.vectors, rows, vectors), "")
    terms = [query_terms(question) for question in questions]
    measured.times("words alone", timed(lambda t: snapshot.lexical.search(t, 64), terms))

    def ask(question: str) -> None:
        searcher.search(_ID, question, K, tenant=_TENANT, mode=SearchMode.HYBRID)

    measured.times("whole hybrid search, chunks read", timed(ask, questions))


def _recall(view: VectorView, queries: Sequence[Vectors], vectors: Vectors) -> float:
    """Share of the 8 nearest by an exact search that are found; by score, so that ties are fair."""
    index, kind = build(vectors, FaissSettings(flat_below=2**62))
    everything = select(None, len(vectors))
    found = 0
    for query in queries:
        _, exact = search_rows(index, kind, query, K, everything, FaissSettings())
        found += int((view.search(query, K).scores >= exact[-1] - 1e-6).sum())
    return found / (K * len(queries))


def measure_kinds(cache: Path, counts: Sequence[int]) -> Measured:
    """Each kind of index at each size: what the thresholds rest on."""
    measured = Measured()
    real = embedded(passages(), cache)
    queries, _ = perturbed(real, _QUESTIONS, seed=2)
    rows = [query[None] for query in queries]
    kinds = {
        "flat": FaissSettings(flat_below=2**62),
        "hnsw": FaissSettings(flat_below=0, ivf_from=2**62, exhaustive_rows=0),
        "ivf": FaissSettings(flat_below=0, ivf_from=0, exhaustive_rows=0),
    }
    for count in counts:
        vectors, _ = perturbed(real, count, seed=1)
        exact: list[float] = []
        for name, settings in kinds.items():
            title = f"{name} of {count:,}"
            with measured.seconds(f"{title}: build"):
                index, kind = build(vectors, settings)
            search = partial(_searched, index, kind, select(None, count), settings)
            measured.times(title, timed(search, rows[: _QUESTIONS // 4]))
            scores = [search(query) for query in rows]
            exact = exact or [float(found[-1]) for found in scores]  # of the flat one
            good = sum(int((s >= e - 1e-6).sum()) for s, e in zip(scores, exact, strict=True))
            measured.note(f"{title}: recall@8", good / K / len(rows), "")
    return measured


def _searched(
    index: Any, kind: IndexKind, selection: Selection, settings: FaissSettings, query: Vectors
) -> Scores:
    return search_rows(index, kind, query, K, selection, settings)[1]


def _store(
    engine: sqlalchemy.Engine, vectors: Vectors, texts: Sequence[str], *, start: int
) -> None:
    """Documents of 20 chunks, as the ingester writes them."""
    with engine.begin() as connection:
        if start == 0:
            connection.execute(
                insert(collections).values(
                    id=_ID,
                    tenant=_TENANT,
                    name="bench",
                    embedder=Prepared.id,
                    dimension=vectors.shape[1],
                    created_at=0,
                    revision=1,
                )
            )
        for first in range(0, len(vectors), _PER_DOCUMENT):
            position = (start + first) // _PER_DOCUMENT
            span = slice(first, first + _PER_DOCUMENT)
            _store_document(connection, position, vectors[span], texts[span])


def _store_document(
    connection: sqlalchemy.Connection, position: int, vectors: Vectors, texts: Sequence[str]
) -> None:
    name = f"doc-{position:024x}"
    connection.execute(
        insert(files).values(
            id=name,
            tenant=_TENANT,
            name=name,
            purpose="assistants",
            size_bytes=1,
            digest=name,
            created_at=0,
            deleting=False,
        )
    )
    connection.execute(
        insert(collection_files).values(
            collection_id=_ID,
            file_id=name,
            status="completed",
            document_id=name,
            chunk_count=len(texts),
            created_at=0,
            attributes={},
            access=[],
        )
    )
    connection.execute(
        insert(documents).values(
            collection_id=_ID,
            id=name,
            position=position,
            file_id=name,
            name=name,
            media_type="text/plain",
            text="\n".join(texts),
            token_count=0,
        )
    )
    connection.execute(
        insert(chunks),
        [
            {
                "collection_id": _ID,
                "document_id": name,
                "position": at,
                "id": f"chunk-{position:012x}{at:012x}",
                "start": 0,
                "end": len(text),
                "text": text,
                "token_count": 0,
                "page": None,
                "heading_path": [],
                "embedding": vector.astype("<f4").tobytes(),
            }
            for at, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ],
    )


def _raise(connection: sqlalchemy.Connection) -> None:
    connection.execute(sqlalchemy.update(collections).values(revision=collections.c.revision + 1))


def _memory_of(folder: Path) -> int:
    """What the indexes add to a process that has nothing else, after it took them from disk."""
    command = [sys.executable, "-m", "bench.micro.search", "--loaded", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout)


def _print_growth(folder: Path) -> None:
    faiss_module()
    engine = sqlalchemy.create_engine(f"sqlite:///{folder}/bench.db")
    with IndexCatalog(engine, folder / "indexes", FaissBackend(folder / "indexes")) as catalog:
        with engine.connect() as connection:
            collection = select_collection(connection, _ID, _TENANT)
            before = _resident_bytes()
            snapshot = catalog.current(connection, collection)
        click.echo(_resident_bytes() - before)
        assert len(snapshot.vectors), "it was filled"


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@click.command(context_settings={"show_default": True})
@click.option("--chunks", "count", default=CHUNKS)
@click.option("--cache", type=click.Path(path_type=Path), default=CACHE, help="Of embeddings.")
@click.option("--kinds", multiple=True, type=int, help="Sizes at which all kinds are compared.")
@click.option("--loaded", type=click.Path(path_type=Path), hidden=True)
def main(count: int, cache: Path, kinds: tuple[int, ...], loaded: Path | None) -> None:
    """Measure and print."""
    if loaded is not None:
        _print_growth(loaded)
        return
    measured = measure_kinds(cache, kinds) if kinds else measure(count, cache)
    for name, (value, unit) in measured.figures.items():
        click.echo(f"  {name:52} {value:12,.4g} {unit}")


if __name__ == "__main__":
    main()
