"""What every backend promises, on FAISS and on a real PostgreSQL with pgvector."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.errors import StorageError
from retrieval.index_views import VectorBackend, VectorView
from retrieval.vectors import FaissBackend, FaissSettings, PgVectorBackend, PgVectorSettings
from tests.postgres_server import PostgresServer
from tests.retrieval.indexed import Rows, allow, places, quick_database, random_vectors

# Small enough that both kinds of search happen with few vectors.
_FAISS = FaissSettings(flat_below=200, exhaustive_rows=150, hnsw_search_depth=64)
_PGVECTOR = PgVectorSettings(index_from=200, exhaustive_rows=150, search_depth=64)


@pytest.fixture(
    params=["faiss", pytest.param("pgvector", marks=pytest.mark.slow)],
)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorBackend]:
    if request.param == "faiss":
        yield FaissBackend(tmp_path / "indexes", settings=_FAISS)
        return
    server: PostgresServer = request.getfixturevalue("pgvector_server")
    engine = server.create_engine()
    yield PgVectorBackend(engine, settings=_PGVECTOR)
    engine.dispose()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = quick_database(tmp_path / "quick.db")
    yield engine
    engine.dispose()


@pytest.fixture
def rows(database: sqlalchemy.Engine) -> Rows:
    return Rows(database)


def view(backend: VectorBackend, rows: Rows, held: VectorView | None = None) -> VectorView:
    with rows.engine.connect() as connection:
        return backend.view(connection, rows.collection, rows.document_keys(), held)


def test_an_empty_collection_has_nothing(backend: VectorBackend, rows: Rows) -> None:
    empty = view(backend, rows)
    assert len(empty) == 0
    assert places(empty.search(random_vectors(1), 5)) == []


def test_the_nearest_are_found_in_order(backend: VectorBackend, rows: Rows) -> None:
    for number in range(6):
        rows.add(f"d{number}", random_vectors(5, seed=number))
    found = view(backend, rows)
    assert len(found) == 30
    query = random_vectors(1, seed=99)
    hits = found.search(query, 40)
    assert places(hits) == rows.nearest(query, 40)
    expected = [float(rows.vectors[place] @ query[0]) for place in places(hits)]
    np.testing.assert_allclose(hits.scores, expected, atol=1e-6)


def test_equal_vectors_come_in_canonical_order(backend: VectorBackend, rows: Rows) -> None:
    same = np.repeat(random_vectors(1), 3, axis=0)
    for number in range(4):
        rows.add(f"d{number}", same)
    found = view(backend, rows)
    assert places(found.search(random_vectors(1), 5)) == sorted(rows.vectors)[:5]


def test_changes_are_seen_and_earlier_views_go_on(backend: VectorBackend, rows: Rows) -> None:
    for number in range(4):
        rows.add(f"d{number}", random_vectors(5, seed=number))
    before = view(backend, rows)
    rows.remove("d1")
    rows.add("new", random_vectors(3, seed=50))
    after = view(backend, rows, before)
    query = random_vectors(1, seed=99)
    assert places(after.search(query, 30)) == rows.nearest(query, 30)
    # Whatever an earlier view finds now, it is nothing that it doesn't know.
    known = {key.position for key in before.documents}
    assert {place >> 24 for place in places(before.search(query, 30))} <= known


def test_a_position_may_be_taken_again(backend: VectorBackend, rows: Rows) -> None:
    for number in range(3):
        rows.add(f"d{number}", random_vectors(4, seed=number))
    before = view(backend, rows)
    rows.remove("d1")
    rows.add("other", random_vectors(6, seed=77), position=1)
    after = view(backend, rows, before)
    query = random_vectors(1, seed=98)
    assert places(after.search(query, 30)) == rows.nearest(query, 30)


def test_a_restart_finds_what_was_there(backend: VectorBackend, rows: Rows, tmp_path: Path) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    first = view(backend, rows)
    backend.rebuilt(rows.collection, first)
    rows.remove("d3")
    rows.add("late", random_vectors(9, seed=500))
    again = view(backend, rows)
    query = random_vectors(1, seed=97)
    everything = allow([key.position for key in rows.document_keys()], key="all")
    assert len(again) == len(rows.vectors)
    assert places(again.search(query, 8)) == rows.nearest(query, 8)
    assert places(again.search(query, 8, everything)) == rows.nearest(query, 8)


def test_chunks_that_were_cut_anew_are_read_anew(backend: VectorBackend, rows: Rows) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    backend.rebuilt(rows.collection, view(backend, rows))
    rows.remove("d59")
    rows.add("d59", random_vectors(7, seed=600))  # same document, same position, other chunks
    again = view(backend, rows)
    query = random_vectors(1, seed=96)
    assert len(again) == len(rows.vectors)
    assert set(places(again.search(query, 60))) <= set(rows.vectors)


@pytest.mark.parametrize("share", [1, 3, 30])
def test_a_filter_never_leaves_too_few(backend: VectorBackend, rows: Rows, share: int) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    found = view(backend, rows)
    rebuilt = backend.rebuilt(rows.collection, found)
    found = rebuilt or found
    only = allow(range(0, 60, share), key=f"every {share}", size=60)
    overlap = 0
    for seed in range(20):
        query = random_vectors(1, seed=1000 + seed)
        hits = places(found.search(query, 8, only))
        assert len(hits) == 8
        assert all(only.documents[place >> 24] for place in hits)
        overlap += len(set(hits) & set(rows.nearest(query, 8, only)))
    assert overlap >= 0.95 * 20 * 8


def test_nothing_allowed_is_nothing_found(backend: VectorBackend, rows: Rows) -> None:
    rows.add("d", random_vectors(3))
    found = view(backend, rows)
    assert places(found.search(random_vectors(1), 3, allow([], key="none", size=1))) == []


def test_what_is_forgotten_is_not_held(backend: VectorBackend, rows: Rows) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    found = view(backend, rows)
    backend.rebuilt(rows.collection, found)
    assert backend.held() == {rows.id}
    backend.forget(rows.id)
    assert backend.held() == set()
    with suppress(StorageError):  # its table has gone; a search in this process goes on
        found.search(random_vectors(1), 8)
    assert len(view(backend, rows)) == len(rows.vectors)


def test_another_model_takes_nothing_over(
    backend: VectorBackend, rows: Rows, database: sqlalchemy.Engine
) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    backend.rebuilt(rows.collection, view(backend, rows))
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE collections SET embedder = 'other'"))
        connection.execute(
            sqlalchemy.text("UPDATE chunks SET embedding = :e"),
            {"e": random_vectors(1, seed=5)[0].tobytes()},
        )
    query = random_vectors(1, seed=5)
    np.testing.assert_allclose(view(backend, rows).search(query, 8).scores, 1.0, atol=1e-5)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=12), st.integers(0, 99))
def test_any_history_gives_what_is_there(
    backend: VectorBackend, database: sqlalchemy.Engine, history: list[tuple[bool, int]], seed: int
) -> None:
    """Exact while nothing is approximate: each view finds what is there, and nothing else."""
    with database.begin() as connection:
        for table in ("collections", "documents", "chunks", "collection_files", "files"):
            connection.execute(sqlalchemy.text(f"DELETE FROM {table}"))
    backend.forget("vs_1")
    rows = Rows(database)
    held: VectorView | None = None
    query = random_vectors(1, seed=seed)
    for is_added, number in history:
        name = f"d{number}"
        is_there = name in {key.id for key in rows.document_keys()}
        if is_added and not is_there:
            rows.add(name, random_vectors(number % 4, seed=number))
        elif is_there and not is_added:
            rows.remove(name)
        held = view(backend, rows, held)
        assert places(held.search(query, 5)) == rows.nearest(query, 5)
        assert len(held) == len(rows.vectors)
