"""`Collections` as the gateway uses it: real database, real FAISS, a real small embedder."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy

from retrieval import (
    AmbiguousCollectionError,
    Collection,
    CollectionFileNotFoundError,
    CollectionNotFoundError,
    Collections,
    FileStatus,
    HashingEmbedder,
    IndexManifestError,
    InvalidSearchError,
    StorageError,
    StoredFileNotFoundError,
    canonical_order,
)
from retrieval.embed import Vectors

OpenCollections = Callable[..., Collections]

FARES = b"# Fares\n\nAdults pay nine euros.\n\n## Dogs\n\nDogs pay two euros.\n"
LIGHTHOUSE = b"The lighthouse on Gannet Point has 164 steps and was built in 1871."


def add(
    collections: Collections, collection: Collection, name: str, data: bytes, tenant: str = "t"
) -> str:
    file = collections.save_file(name, data, "assistants", tenant=tenant)
    added = collections.add_file(collection.id, file.id, tenant=tenant)
    assert added.status is FileStatus.COMPLETED, added
    return file.id


@pytest.fixture
def ferry(collections: Collections) -> Collection:
    return collections.create("ferry", tenant="t")


def test_a_question_finds_its_passage_with_all_a_citation_needs(
    collections: Collections, ferry: Collection
) -> None:
    add(collections, ferry, "fares.md", FARES)
    file_id = add(collections, ferry, "lighthouse.txt", LIGHTHOUSE)
    found = collections.search(ferry.id, "How many steps has the lighthouse?", 1, tenant="t")
    assert len(found) == 1
    chunk = found[0].chunk
    assert 0 < found[0].score <= 1
    assert (chunk.file_id, chunk.name) == (file_id, "lighthouse.txt")
    assert LIGHTHOUSE.decode()[chunk.start : chunk.end] == chunk.text


def test_an_empty_collection_finds_nothing(collections: Collections, ferry: Collection) -> None:
    assert collections.search(ferry.id, "anything", tenant="t") == []
    assert collections.corpus(ferry.id, tenant="t").documents == ()


def test_search_sees_each_change_at_once(collections: Collections, ferry: Collection) -> None:
    fares = add(collections, ferry, "fares.md", FARES)
    assert names(collections, ferry) == ["fares.md"]
    add(collections, ferry, "lighthouse.txt", LIGHTHOUSE)
    assert names(collections, ferry) == ["fares.md", "lighthouse.txt"]
    collections.remove_file(ferry.id, fares, tenant="t")
    assert names(collections, ferry) == ["lighthouse.txt"]


def names(collections: Collections, collection: Collection) -> list[str]:
    found = collections.search(collection.id, "pay steps", 50, tenant=collection.tenant)
    return sorted({scored.chunk.name for scored in found})


def test_the_corpus_grows_at_its_end(collections: Collections, ferry: Collection) -> None:
    for name in ("z.txt", "a.txt", "m.txt"):
        before = collections.corpus_chunks(ferry.id, tenant="t")
        add(collections, ferry, name, f"This is {name}.".encode())
        after = collections.corpus_chunks(ferry.id, tenant="t")
        assert after[: len(before)] == before
        assert after == canonical_order(reversed(after))
    documents = collections.corpus(ferry.id, tenant="t").documents
    assert [document.name for document in documents] == ["z.txt", "a.txt", "m.txt"]
    assert [document.position for document in documents] == [0, 1, 2]


def test_adding_the_same_file_again_changes_nothing(
    collections: Collections, ferry: Collection
) -> None:
    file_id = add(collections, ferry, "fares.md", FARES)
    before = collections.get(ferry.id, tenant="t"), collections.size(ferry.id, tenant="t")
    assert add(collections, ferry, "fares.md", FARES) == file_id
    after = collections.get(ferry.id, tenant="t"), collections.size(ferry.id, tenant="t")
    assert after == before


def test_the_same_bytes_under_two_names_are_one_document(
    collections: Collections, ferry: Collection
) -> None:
    first = add(collections, ferry, "fares.md", FARES)
    add(collections, ferry, "lighthouse.txt", LIGHTHOUSE)
    second = add(collections, ferry, "copy.md", FARES)
    assert first != second
    corpus = collections.corpus(ferry.id, tenant="t").documents
    assert corpus[0].file_id == first
    assert len(corpus) == 2
    collections.delete_file(first, tenant="t")
    corpus = collections.corpus(ferry.id, tenant="t").documents
    assert corpus[0].file_id == second, "the document stays where it was, for the second file"
    collections.remove_file(ferry.id, second, tenant="t")
    assert [d.name for d in collections.corpus(ferry.id, tenant="t").documents] == [
        "lighthouse.txt"
    ]


def test_same_bytes_give_the_same_chunks_in_any_collection(
    collections: Collections, ferry: Collection
) -> None:
    other = collections.create("other", tenant="t")
    add(collections, ferry, "fares.md", FARES)
    add(collections, other, "fares.md", FARES)
    assert collections.corpus_chunks(ferry.id, tenant="t") == collections.corpus_chunks(
        other.id, tenant="t"
    )


def test_a_file_that_cannot_be_parsed_is_kept_as_failed(
    collections: Collections, ferry: Collection
) -> None:
    file = collections.save_file("broken.pdf", b"%PDF-1.7 no", "assistants", tenant="t")
    failed = collections.add_file(ferry.id, file.id, tenant="t")
    assert failed.status is FileStatus.FAILED
    assert failed.last_error is not None
    assert "export it again" in failed.last_error.message
    assert collections.list_collection_files(ferry.id, tenant="t") == [failed]
    assert collections.corpus(ferry.id, tenant="t").documents == ()
    size = collections.size(ferry.id, tenant="t")
    assert (size.completed_files, size.failed_files, size.chunk_count) == (0, 1, 0)
    collections.remove_file(ferry.id, file.id, tenant="t")
    assert collections.list_collection_files(ferry.id, tenant="t") == []


def test_sizes_add_up(collections: Collections, ferry: Collection) -> None:
    add(collections, ferry, "fares.md", FARES)
    add(collections, ferry, "lighthouse.txt", LIGHTHOUSE)
    size = collections.size(ferry.id, tenant="t")
    corpus = collections.corpus(ferry.id, tenant="t").documents
    assert size.file_bytes == len(FARES) + len(LIGHTHOUSE)
    assert size.token_count == sum(document.token_count for document in corpus) > 0
    assert size.chunk_count == len(collections.corpus_chunks(ferry.id, tenant="t"))
    assert (size.completed_files, size.document_count) == (2, 2)


def test_a_collection_is_found_by_id_or_by_a_name_that_only_it_has(
    collections: Collections, ferry: Collection
) -> None:
    assert collections.resolve("ferry", tenant="t") == ferry
    assert collections.resolve(ferry.id, tenant="t") == ferry
    twin = collections.create("ferry", tenant="t")
    with pytest.raises(AmbiguousCollectionError, match=twin.id) as caught:
        collections.resolve("ferry", tenant="t")
    assert caught.value.ids == (ferry.id, twin.id)
    assert collections.resolve(twin.id, tenant="t") == twin


def test_nothing_of_one_tenant_is_there_for_another(
    collections: Collections, ferry: Collection
) -> None:
    file_id = add(collections, ferry, "fares.md", FARES)
    mine = collections.create("mine", tenant="u")
    assert collections.list_all(tenant="u") == [mine]
    assert collections.list_files(tenant="u") == []
    not_found: list[Callable[[], object]] = [
        lambda: collections.get(ferry.id, tenant="u"),
        lambda: collections.resolve("ferry", tenant="u"),
        lambda: collections.size(ferry.id, tenant="u"),
        lambda: collections.search(ferry.id, "adults", tenant="u"),
        lambda: collections.corpus(ferry.id, tenant="u"),
        lambda: collections.corpus_chunks(ferry.id, tenant="u"),
        lambda: collections.list_collection_files(ferry.id, tenant="u"),
        lambda: collections.get_collection_file(ferry.id, file_id, tenant="u"),
        lambda: collections.remove_file(ferry.id, file_id, tenant="u"),
        lambda: collections.delete(ferry.id, tenant="u"),
        lambda: collections.get_file(file_id, tenant="u"),
        lambda: collections.read_file(file_id, tenant="u"),
        lambda: collections.delete_file(file_id, tenant="u"),
        lambda: collections.add_file(mine.id, file_id, tenant="u"),
    ]
    for call in not_found:
        with pytest.raises((CollectionNotFoundError, StoredFileNotFoundError)):
            call()
    assert names(collections, ferry) == ["fares.md"]


def test_a_deleted_collection_leaves_its_files(
    collections: Collections, ferry: Collection, tmp_path: Path
) -> None:
    file_id = add(collections, ferry, "fares.md", FARES)
    collections.search(ferry.id, "adults", tenant="t")
    collections.delete(ferry.id, tenant="t")
    with pytest.raises(CollectionNotFoundError):
        collections.search(ferry.id, "adults", tenant="t")
    assert collections.read_file(file_id, tenant="t") == FARES
    assert not list((tmp_path / "retrieval" / "indexes").glob("*"))


def test_a_file_that_is_not_in_the_collection_is_named(
    collections: Collections, ferry: Collection
) -> None:
    file = collections.save_file("fares.md", FARES, "assistants", tenant="t")
    with pytest.raises(CollectionFileNotFoundError, match=file.id):
        collections.get_collection_file(ferry.id, file.id, tenant="t")
    with pytest.raises(CollectionFileNotFoundError, match=file.id):
        collections.remove_file(ferry.id, file.id, tenant="t")


@pytest.mark.parametrize(
    ("query", "k", "why"), [(" ", 1, "empty"), ("x", 0, "1 to"), ("x", 65, "1 to 64")]
)
def test_a_search_that_makes_no_sense_is_refused(
    collections: Collections, ferry: Collection, query: str, k: int, why: str
) -> None:
    with pytest.raises(InvalidSearchError, match=why):
        collections.search(ferry.id, query, k, tenant="t")


def test_another_embedding_model_is_refused(
    open_collections: OpenCollections, collections: Collections, ferry: Collection
) -> None:
    file_id = add(collections, ferry, "fares.md", FARES)
    other = open_collections(embedder=HashingEmbedder(64))
    with pytest.raises(IndexManifestError, match="new collection"):
        other.search(ferry.id, "adults", tenant="t")
    other.remove_file(ferry.id, file_id, tenant="t")
    with pytest.raises(IndexManifestError, match="embedder"):
        other.add_file(ferry.id, file_id, tenant="t")


def test_a_refusing_database_is_one_error_and_changes_nothing(
    collections: Collections, ferry: Collection, database: sqlalchemy.Engine
) -> None:
    file = collections.save_file("fares.md", FARES, "assistants", tenant="t")
    with database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON chunks BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    with pytest.raises(StorageError, match=r"The database refused.*full.*nothing was changed"):
        collections.add_file(ferry.id, file.id, tenant="t")
    assert collections.list_collection_files(ferry.id, tenant="t") == []
    assert collections.corpus(ferry.id, tenant="t").documents == ()


class _DeletingEmbedder(HashingEmbedder):
    """An embedder during whose work something else happens."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None

    def embed_passages(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        self.meanwhile()
        return super().embed_passages(texts)


def test_what_is_deleted_while_it_is_ingested_stays_deleted(
    open_collections: OpenCollections,
) -> None:
    embedder = _DeletingEmbedder()
    collections = open_collections(embedder=embedder)
    ferry = collections.create("ferry", tenant="t")
    file = collections.save_file("fares.md", FARES, "assistants", tenant="t")
    embedder.meanwhile = lambda: collections.delete_file(file.id, tenant="t")
    with pytest.raises(StoredFileNotFoundError):
        collections.add_file(ferry.id, file.id, tenant="t")
    assert collections.corpus(ferry.id, tenant="t").documents == ()
    again = collections.save_file("fares.md", FARES, "assistants", tenant="t")
    embedder.meanwhile = lambda: collections.delete(ferry.id, tenant="t")
    with pytest.raises(CollectionNotFoundError):
        collections.add_file(ferry.id, again.id, tenant="t")


def test_threads_that_add_remove_and_search_agree(
    collections: Collections, ferry: Collection
) -> None:
    stop = threading.Event()

    def search() -> int:
        searches = 0
        while not stop.is_set():
            found = collections.search(ferry.id, "number steps", 50, tenant="t")
            assert len({scored.chunk.id for scored in found}) == len(found)
            searches += 1
        return searches

    def add_one(number: int) -> str:
        # Each file is added twice by name, and every second one has a twin with the same bytes.
        return add(
            collections, ferry, f"{number % 12}.txt", f"This is number {number % 6}.".encode()
        )

    with ThreadPoolExecutor(6) as pool:
        searchers = [pool.submit(search) for _ in range(2)]
        ids = set(pool.map(add_one, range(24)))
        removed = sorted(ids)[:5]
        list(pool.map(lambda i: collections.remove_file(ferry.id, i, tenant="t"), removed))
        stop.set()
        assert all(searcher.result() > 0 for searcher in searchers)
    files = collections.list_collection_files(ferry.id, tenant="t")
    assert {file.file_id for file in files} == ids - set(removed)
    corpus = collections.corpus(ferry.id, tenant="t").documents
    assert {d.id for d in corpus} == {file.document_id for file in files}
    assert {d.file_id for d in corpus} <= {file.file_id for file in files}
    found = collections.search(ferry.id, "number", 50, tenant="t")
    assert {s.chunk.id for s in found} == {
        c.id for c in collections.corpus_chunks(ferry.id, tenant="t")
    }
