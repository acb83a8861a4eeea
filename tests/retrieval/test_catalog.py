"""The catalog of indexes: what stays in memory, what is built anew, what a deletion leaves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from retrieval.catalog import IndexCatalog, Snapshot
from retrieval.chunk_store import select_chunks_at
from retrieval.store import delete_collection
from retrieval.vectors import FaissBackend
from retrieval.vectors.faiss_backend import FaissView
from tests.retrieval.indexed import Rows, quick_database, random_vectors


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = quick_database(tmp_path / "foreword.db")
    yield engine
    engine.dispose()


@pytest.fixture
def rows(engine: sqlalchemy.Engine) -> Rows:
    return Rows(engine)


def current(catalog: IndexCatalog, rows: Rows) -> Snapshot:
    with rows.engine.connect() as connection:
        return catalog.current(connection, rows.collection)


def test_what_grew_while_an_index_was_built_is_built_in_without_another_search(
    rows: Rows, tmp_path: Path
) -> None:
    class Growing(FaissBackend):
        """Something comes in, and is searched for, while its first base is being built."""

        grow: Callable[[], object] | None = None

        def rebuilt(self, collection: Any, view: Any) -> Any:
            built = super().rebuilt(collection, view)
            grow, self.grow = self.grow, None
            if grow is not None:
                grow()
            return built

    backend = Growing(tmp_path / "i")
    with IndexCatalog(rows.engine, tmp_path / "i", backend) as catalog:

        def grow() -> None:
            rows.add("more", random_vectors(1500, seed=1))
            current(catalog, rows)

        rows.add("first", random_vectors(1500))
        backend.grow = grow
        current(catalog, rows)
        catalog.settle(60)
        view = current(catalog, rows).vectors
        assert isinstance(view, FaissView)
        assert (view.base.selection.count, view.tail.selection.count) == (3000, 0)


def test_a_search_that_began_before_a_deletion_leaves_nothing_behind(
    rows: Rows, tmp_path: Path
) -> None:
    """It read the collection, the collection went, and only then it made the index."""
    with IndexCatalog(rows.engine, tmp_path / "i", FaissBackend(tmp_path / "i")) as catalog:
        rows.add("d", random_vectors(1500))
        read_before = rows.collection
        with rows.engine.begin() as connection:
            delete_collection(connection, rows.id)
        catalog.forget(rows.id)
        with rows.engine.connect() as connection:
            catalog.current(connection, read_before)
        catalog.settle(60)
        catalog._worker.submit(lambda: None).result(60)
        assert catalog.held(read_before) is None
        assert not (tmp_path / "i" / rows.id).exists()


def test_memory_is_bounded_by_chunks_and_the_last_asked_stays(rows: Rows, tmp_path: Path) -> None:
    others = [Rows(rows.engine, id=f"vs_{number}") for number in (2, 3)]
    with IndexCatalog(
        rows.engine, tmp_path / "i", FaissBackend(tmp_path / "i"), max_chunks=100
    ) as catalog:
        for each in (rows, *others):
            each.add(f"{each.id}-d", random_vectors(60))
            current(catalog, each)
        assert catalog.held(others[1].collection) is not None
        assert catalog.held(rows.collection) is None


def test_the_chunks_that_were_found_are_read_by_their_key(rows: Rows) -> None:
    """And not by going through the collection."""
    rows.add("a", random_vectors(40))
    rows.add("b", random_vectors(40, seed=1))
    plans: list[str] = []

    @sqlalchemy.event.listens_for(rows.engine, "before_cursor_execute")
    def _explain(_c: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        plans.extend(row[3] for row in cursor.fetchall())

    wanted = [("a", 3), ("b", 39), ("b", 0), ("b", 40), ("gone", 0)]
    with rows.engine.connect() as connection:
        found = select_chunks_at(connection, rows.id, wanted)
    assert sorted(found) == [("a", 3), ("b", 0), ("b", 39)]
    [of_chunks] = [plan for plan in plans if " chunks " in plan]
    assert "(collection_id=? AND document_id=? AND position=?)" in of_chunks
