"""Searching a collection: modes, filters, access, bad questions, and what happens meanwhile."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval import (
    Collections,
    HashingEmbedder,
    PgVectorBackend,
    SearchMode,
    metadata,
    parse_filter,
)
from retrieval.catalog import IndexCatalog
from retrieval.documents import ScoredChunk
from retrieval.embed import Vectors
from retrieval.errors import (
    CollectionNotFoundError,
    EmbedderError,
    IndexManifestError,
    InvalidSearchError,
    RetrievalError,
)
from retrieval.filters import matches
from retrieval.search import Searcher
from retrieval.vectors import FaissBackend
from retrieval.vectors.pgvector_tables import table_of
from tests.postgres_server import PostgresServer
from tests.retrieval.indexed import Rows, quick_database
from tests.retrieval.test_filters import FILTERS

TENANT = "t"
Open = Callable[..., Collections]


def fill(collections: Collections, texts: dict[str, str], **options: Any) -> str:
    """A collection with a file for each text."""
    collection = collections.create("c", tenant=TENANT)
    for name, text in texts.items():
        add(collections, collection.id, name, text, **options)
    return collection.id


def add(collections: Collections, id: str, name: str, text: str, **options: Any) -> str:
    file = collections.save_file(name, text.encode(), "assistants", tenant=TENANT)
    collections.add_file(id, file.id, tenant=TENANT, **options)
    return file.id


def names(found: Sequence[ScoredChunk]) -> list[str]:
    return [one.chunk.name for one in found]


FERRIES = {
    "fares.txt": "Adults pay 9 euros, children travel for free.",
    "ships.txt": "The ferry FW703 runs at 10.5 knots.",
    "pets.txt": "Dogs are welcome on deck when they are on a lead.",
    "bikes.txt": "Bicycles are carried at the rear of the car deck.",
}


def test_each_mode_keeps_its_scores(collections: Collections) -> None:
    id = fill(collections, FERRIES)
    for mode in SearchMode:
        found = collections.search(id, "how fast is FW703", tenant=TENANT, mode=mode)
        best = found[0]
        assert best.chunk.name == "ships.txt"
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert (best.vector_score is None) is (mode is SearchMode.LEXICAL)
        assert (best.lexical_score is None) is (mode is SearchMode.VECTOR)
        assert best.rerank_score is None
        if mode is SearchMode.HYBRID:
            assert 0 < best.score <= 1
        else:
            assert best.score in (best.vector_score, best.lexical_score)


@pytest.mark.parametrize("mode", list(SearchMode))
def test_the_same_question_finds_the_same(collections: Collections, mode: SearchMode) -> None:
    id = fill(collections, FERRIES)
    first = collections.search(id, "deck of the ferry", tenant=TENANT, mode=mode)
    assert collections.search(id, "deck of the ferry", tenant=TENANT, mode=mode) == first


def test_more_than_there_are_gives_all(collections: Collections) -> None:
    id = fill(collections, FERRIES)
    assert len(collections.search(id, "ferry", 64, tenant=TENANT)) == 4
    empty = collections.create("empty", tenant=TENANT)
    assert collections.search(empty.id, "ferry", tenant=TENANT) == []


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        ("", {}, "empty"),
        (" \n", {}, "empty"),
        ("x" * 1_000_001, {}, "1,000,001 characters"),
        ("ferry", {"k": 0}, "k is 0"),
        ("ferry", {"k": 65}, "k is 65"),
        ("ferry", {"mode": "fuzzy"}, "hybrid, vector, lexical"),
        ("ferry", {"rerank": True}, "no re-ranker"),
    ],
)
def test_a_search_that_can_not_be_run_says_why(
    collections: Collections, query: str, options: dict[str, Any], said: str
) -> None:
    id = fill(collections, FERRIES)
    with pytest.raises(InvalidSearchError, match=said):
        collections.search(id, query, tenant=TENANT, **options)


@pytest.mark.parametrize(
    "query", ["word " * 20_000 + "FW703", "FW703" + "\x00" * 9, "FW703 \ud800"]
)
def test_an_odd_question_is_answered(collections: Collections, query: str) -> None:
    id = fill(collections, FERRIES)
    found = collections.search(id, query, tenant=TENANT, mode="lexical")
    assert names(found)[:1] == ["ships.txt"]


def test_another_tenant_finds_nothing(collections: Collections) -> None:
    id = fill(collections, FERRIES)
    with pytest.raises(CollectionNotFoundError):
        collections.search(id, "ferry", tenant="other")


def test_another_embedder_is_refused_for_vectors_alone(open_collections: Open) -> None:
    id = fill(open_collections(), FERRIES)
    other = open_collections(embedder=HashingEmbedder(64))
    with pytest.raises(IndexManifestError, match="embedder"):
        other.search(id, "ferry", tenant=TENANT)
    assert names(other.search(id, "FW703", tenant=TENANT, mode="lexical")) == ["ships.txt"]


def test_what_changes_is_found_at_once(collections: Collections) -> None:
    id = fill(collections, FERRIES)
    assert names(collections.search(id, "dogs", tenant=TENANT, mode="lexical")) == ["pets.txt"]
    file = add(collections, id, "cats.txt", "Cats travel like dogs.")
    found = collections.search(id, "dogs", tenant=TENANT, mode="lexical")
    assert sorted(names(found)) == ["cats.txt", "pets.txt"]
    collections.remove_file(id, file, tenant=TENANT)
    assert names(collections.search(id, "dogs", tenant=TENANT, mode="lexical")) == ["pets.txt"]


def test_access_groups_hide_files(collections: Collections) -> None:
    id = fill(collections, FERRIES)
    add(collections, id, "pay.txt", "The captain is paid 9 euros.", access=("hr", "board"))
    seen = {
        groups: names(collections.search(id, "9 euros", 64, tenant=TENANT, groups=groups))
        for groups in [(), ("crew",), ("hr",), ("crew", "board")]
    }
    assert {groups: "pay.txt" in found for groups, found in seen.items()} == {
        (): False,
        ("crew",): False,
        ("hr",): True,
        ("crew", "board"): True,
    }
    assert all(len(found) >= 4 for found in seen.values())


def test_a_shared_document_is_cited_as_a_file_that_may_be_seen(collections: Collections) -> None:
    id = fill(collections, {})
    text = "Adults pay 9 euros."
    add(collections, id, "secret.txt", text, access=("hr",))
    assert collections.search(id, "adults", tenant=TENANT) == []
    add(collections, id, "open.txt", text, attributes={"lang": "en"})
    assert names(collections.search(id, "adults", tenant=TENANT)) == ["open.txt"]
    assert names(collections.search(id, "adults", tenant=TENANT, groups=["hr"])) == ["secret.txt"]
    english = parse_filter({"type": "eq", "key": "lang", "value": "en"})
    [found] = collections.search(id, "adults", tenant=TENANT, groups=["hr"], filters=english)
    assert (found.chunk.name, found.chunk.attributes) == ("open.txt", {"lang": "en"})


def test_changed_attributes_are_seen_at_once(collections: Collections) -> None:
    id = fill(collections, {})
    file = add(collections, id, "a.txt", "Adults pay 9 euros.", attributes={"year": 2020.0})
    recent = parse_filter({"type": "gte", "key": "year", "value": 2024})
    assert collections.search(id, "adults", tenant=TENANT, filters=recent) == []
    collections.update_file(id, file, tenant=TENANT, attributes={"year": 2025.0}, access=())
    assert names(collections.search(id, "adults", tenant=TENANT, filters=recent)) == ["a.txt"]


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    engine = quick_database(tmp_path / "quick.db")
    yield Rows(engine, dimension=32)
    engine.dispose()


class _Named(HashingEmbedder):
    """By the name that `Rows` gives collections."""

    def __init__(self) -> None:
        super().__init__(32)
        self.id = "e"


@pytest.fixture
def searcher(rows: Rows, tmp_path: Path) -> Iterator[Searcher]:
    backend = FaissBackend(tmp_path / "indexes")
    with IndexCatalog(rows.engine, tmp_path / "indexes", backend) as catalog:
        yield Searcher(rows.engine, catalog, _Named())


ATTRIBUTES = [
    {"x": value, "y": other} if other != "" else {"x": value}
    for value in ("a", "b", 0.0, 1.0, True)
    for other in ("", "a", 1.0, 2.5)
]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(FILTERS, st.sampled_from([(), ("hr",), ("it", "hr")]), st.integers(1, 12))
def test_a_filtered_search_finds_k_where_k_are(
    rows: Rows, searcher: Searcher, value: dict[str, Any], groups: tuple[str, ...], k: int
) -> None:
    """Against all chunks, filtered first and then ranked."""
    if not rows.vectors:
        for number, attributes in enumerate(ATTRIBUTES):
            texts = [f"ferry {'deck ' * at} {number}" for at in range(3)]
            access = [(), ("hr",), ("it",)][number % 3]
            vectors = _Named().embed_passages(texts)
            rows.add(f"d{number}", vectors, texts=texts, attributes=attributes, access=access)
    parsed = parse_filter(value)
    may_be_found = {
        number
        for number, attributes in enumerate(ATTRIBUTES)
        if matches(parsed, attributes)
        and ([set(), {"hr"}, {"it"}][number % 3] or {""}) & {"", *groups}
    }
    for mode in SearchMode:
        found = searcher.search(
            rows.id, "ferry deck", k, tenant=TENANT, filters=parsed, groups=groups, mode=mode
        )
        assert {int(one.chunk.document_id[1:]) for one in found} <= may_be_found
        assert len(found) == min(k, 3 * len(may_be_found))


class _Deleting(HashingEmbedder):
    """Deletes a collection while its question is being embedded."""

    def __init__(self, collections: Collections, id: str) -> None:
        super().__init__()
        self._delete = lambda: collections.delete(id, tenant=TENANT)

    def embed_query(self, text: str) -> Vectors:
        self._delete()
        return super().embed_query(text)


def test_a_deleted_collection_is_not_found_in_mid_search(collections: Collections) -> None:
    id = fill(collections, FERRIES)
    searcher = Searcher(collections._engine, collections._catalog, _Deleting(collections, id))
    with pytest.raises(CollectionNotFoundError):
        searcher.search(id, "ferry", tenant=TENANT)


def test_an_embedder_that_gives_nonsense_is_named(collections: Collections) -> None:
    id = fill(collections, FERRIES)

    class Nonsense(HashingEmbedder):
        def embed_query(self, text: str) -> Vectors:
            return super().embed_query(text) * float("nan")

    searcher = Searcher(collections._engine, collections._catalog, Nonsense())
    with pytest.raises(EmbedderError):
        searcher.search(id, "ferry", tenant=TENANT)


class _Slow(FaissBackend):
    """Takes its time for one collection."""

    def __init__(self, folder: Path, slow: str) -> None:
        super().__init__(folder)
        self.slow = slow
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def view(self, connection: Any, collection: Any, documents: Any, held: Any) -> Any:
        if collection.id == self.slow:
            self.entered.set()
            assert self.go_on.wait(120)
        return super().view(connection, collection, documents, held)


def test_no_collection_waits_for_another(rows: Rows, tmp_path: Path) -> None:
    other = Rows(rows.engine, id="vs_2", dimension=32)
    for each in (rows, other):
        each.add(f"{each.id}-d", _Named().embed_passages(["ferry"]), texts=["ferry"])
    backend = _Slow(tmp_path / "indexes", rows.id)
    with (
        IndexCatalog(rows.engine, tmp_path / "indexes", backend) as catalog,
        ThreadPoolExecutor() as pool,
    ):
        searcher = Searcher(rows.engine, catalog, _Named())
        waiting = pool.submit(searcher.search, rows.id, "ferry", tenant=TENANT)
        assert backend.entered.wait(120)
        assert len(searcher.search("vs_2", "ferry", tenant=TENANT)) == 1
        assert not waiting.done()
        backend.go_on.set()
        assert len(waiting.result(120)) == 1


def test_a_search_reads_no_index_rows_once_it_is_current(rows: Rows, searcher: Searcher) -> None:
    rows.add("d", _Named().embed_passages(["ferry"] * 50), texts=["ferry"] * 50)
    searcher.search(rows.id, "ferry", tenant=TENANT)
    statements: list[str] = []

    @sqlalchemy.event.listens_for(rows.engine, "before_cursor_execute")
    def _note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    assert len(searcher.search(rows.id, "ferry", tenant=TENANT)) == 8
    of_chunks = [statement for statement in statements if "FROM chunks" in statement]
    assert len(of_chunks) == 1  # those that were found, by their places
    assert "chunks.position IN" in of_chunks[0]
    assert not any("embedding" in statement for statement in statements)


def test_a_large_collection_is_rebuilt_beside_its_searches(rows: Rows, tmp_path: Path) -> None:
    texts = [f"ferry number{at}" for at in range(1500)]
    rows.add("d", _Named().embed_passages(texts), texts=texts)
    with IndexCatalog(rows.engine, tmp_path / "i", FaissBackend(tmp_path / "i")) as catalog:
        searcher = Searcher(rows.engine, catalog, _Named())
        before = searcher.search(rows.id, "ferry number7", tenant=TENANT)
        catalog.settle(60)
        assert searcher.search(rows.id, "ferry number7", tenant=TENANT) == before
        assert (tmp_path / "i" / rows.id / "vectors.json").exists()
        assert (tmp_path / "i" / rows.id / "lexical.json").exists()
    with IndexCatalog(rows.engine, tmp_path / "i", FaissBackend(tmp_path / "i")) as catalog:
        again = Searcher(rows.engine, catalog, _Named())
        assert again.search(rows.id, "ferry number7", tenant=TENANT) == before


def test_what_a_crash_left_of_a_deleted_collection_is_swept_up(
    rows: Rows, searcher: Searcher, tmp_path: Path
) -> None:
    left = tmp_path / "indexes" / "vs_gone"
    left.mkdir(parents=True)
    (left / "vectors.json").write_text("{}")
    rows.add("d", _Named().embed_passages(["ferry"]), texts=["ferry"])
    searcher.search(rows.id, "ferry", tenant=TENANT)
    searcher._catalog.settle(30)
    assert not left.exists()


def test_searches_and_changes_at_once(open_collections: Open) -> None:
    """Every answer is one that the collection had at some moment, or one clear error."""
    collections = open_collections()
    id = fill(collections, FERRIES)
    stop = threading.Event()
    problems: list[BaseException] = []

    def ask() -> None:
        while not stop.is_set():
            try:
                found = collections.search(id, "dogs on the ferry", tenant=TENANT)
                assert len({one.chunk.id for one in found}) == len(found) >= 4
            except RetrievalError as error:
                problems.append(error)

    with ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        began = time.monotonic()
        while time.monotonic() - began < 2:
            file = add(collections, id, "more.txt", "Dogs and cats on the ferry.")
            collections.remove_file(id, file, tenant=TENANT)
        stop.set()
        for one in asking:
            one.result(120)
    assert problems == []


@pytest.mark.slow
def test_everything_in_postgresql(
    pgvector_server: PostgresServer, tmp_path: Path, count_tokens: Callable[[str], int]
) -> None:
    """Documents, vectors and all: a collection of a server finds what one of a file finds."""
    engine, vectors = pgvector_server.create_engine(), pgvector_server.create_engine()
    metadata.create_all(engine)
    collections = Collections(
        engine, tmp_path / "r", HashingEmbedder(), count_tokens, vectors=PgVectorBackend(vectors)
    )
    id = fill(collections, FERRIES, attributes={"year": 2024.0})
    add(collections, id, "pay.txt", "The captain is paid 9 euros.", access=("hr",))
    for mode in SearchMode:
        assert names(collections.search(id, "FW703", tenant=TENANT, mode=mode))[0] == "ships.txt"
    recent = parse_filter({"type": "eq", "key": "year", "value": 2024})
    found = collections.search(id, "9 euros", tenant=TENANT, filters=recent, groups=["hr"])
    assert sorted(names(found)) == sorted(FERRIES)
    assert "pay.txt" not in names(collections.search(id, "9 euros", tenant=TENANT))
    assert "pay.txt" in names(collections.search(id, "9 euros", tenant=TENANT, groups=["hr"]))
    collections.delete(id, tenant=TENANT)
    assert PgVectorBackend(vectors).held() == set()
    collections.close()
    engine.dispose()
    vectors.dispose()


@pytest.mark.slow
def test_vectors_that_were_dropped_in_postgresql_are_made_again(
    pgvector_server: PostgresServer, open_collections: Open
) -> None:
    """By hand, or by another gateway; and with a collection that is deleted in mid-search."""
    engine = pgvector_server.create_engine()
    collections = open_collections(vectors=PgVectorBackend(engine))
    id = fill(collections, FERRIES)
    before = collections.search(id, "9 euros", tenant=TENANT)
    for drop in ("SCHEMA foreword_vectors CASCADE", f"TABLE {table_of(id)}"):
        for is_changed in (False, True):
            with engine.begin() as connection:
                connection.exec_driver_sql(f"DROP {drop}")
            if is_changed:
                added = add(collections, id, "more.txt", "Nothing of that.")
                collections.remove_file(id, added, tenant=TENANT)
            assert collections.search(id, "9 euros", tenant=TENANT) == before
    searcher = Searcher(collections._engine, collections._catalog, _Deleting(collections, id))
    with pytest.raises(CollectionNotFoundError):
        searcher.search(id, "ferry", tenant=TENANT)
    collections.close()
    engine.dispose()
