"""`sync`: a collection made equal to files by name, at the price of what changed."""

from collections.abc import Callable

import pytest
import sqlalchemy

from retrieval import (
    Collection,
    Collections,
    HashingEmbedder,
    InvalidCollectionError,
    StorageError,
)
from retrieval.embed import Vectors

OpenCollections = Callable[..., Collections]


class CountingEmbedder(HashingEmbedder):
    """Counts the texts that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def embed_passages(self, texts: list[str]) -> Vectors:
        self.texts += len(texts)
        return super().embed_passages(texts)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def collections(open_collections: OpenCollections, embedder: CountingEmbedder) -> Collections:
    return open_collections(embedder=embedder)


@pytest.fixture
def ferry(collections: Collections) -> Collection:
    return collections.create("ferry", tenant="t")


def section(title: str, word: str) -> str:
    return f"# {title}\n\n" + f"About {word}. " * 40 + "\n\n"


def handbook(*words: str) -> bytes:
    return "".join(section(f"Part {n}", word) for n, word in enumerate(words)).encode()


def names(collections: Collections, collection: Collection) -> list[str]:
    return [d.name for d in collections.corpus(collection.id, tenant="t").documents]


def test_only_what_changed_is_embedded_and_the_rest_keeps_its_place(
    collections: Collections, ferry: Collection, embedder: CountingEmbedder
) -> None:
    first = handbook("ferries", "dogs", "fares", "weather")
    others = [("a.txt", b"The first."), ("z.txt", b"The last.")]
    result = collections.sync(ferry.id, [others[0], ("book.md", first), others[1]], tenant="t")
    assert result.added == ("a.txt", "book.md", "z.txt")
    assert result.embedded_chunks == embedder.texts
    before = embedder.texts
    same = collections.sync(ferry.id, [*others, ("book.md", first)], tenant="t")
    assert same.unchanged == ("a.txt", "z.txt", "book.md")
    assert embedder.texts == before
    revision = collections.get(ferry.id, tenant="t").revision
    changed = handbook("ferries", "cats", "fares", "weather")
    result = collections.sync(ferry.id, [*others, ("book.md", changed)], tenant="t")
    assert result.replaced == ("book.md",)
    assert 0 < result.embedded_chunks < result.reused_chunks
    assert embedder.texts == before + result.embedded_chunks
    assert names(collections, ferry) == ["a.txt", "z.txt", "book.md"], "changes gather at the end"
    assert collections.get(ferry.id, tenant="t").revision > revision
    assert "cats" in collections.search(ferry.id, "cats", tenant="t")[0].chunk.text
    texts = {c.text for c in collections.corpus(ferry.id, tenant="t").chunks}
    assert not any("dogs" in text for text in texts)


def test_superseded_bytes_go_unless_somebody_uploaded_them_himself(
    collections: Collections, ferry: Collection
) -> None:
    mine = collections.save_file("a.txt", b"One.", "assistants", tenant="t")
    collections.add_file(ferry.id, mine.id, tenant="t")
    assert collections.sync(ferry.id, [("a.txt", b"One.")], tenant="t").unchanged == ("a.txt",)
    collections.sync(ferry.id, [("a.txt", b"Two.")], tenant="t")
    collections.sync(ferry.id, [("a.txt", b"Three.")], tenant="t")
    stored = collections.list_files(tenant="t")
    assert [(f.name, f.purpose) for f in stored] == [
        ("a.txt", "assistants"),
        ("a.txt", "foreword_sync"),
    ]
    assert collections.read_file(stored[1].id, tenant="t") == b"Three."


@pytest.mark.parametrize("how", ["removed", "deleted"])
def test_synced_bytes_go_with_their_place_in_the_last_collection(
    collections: Collections, ferry: Collection, how: str
) -> None:
    mine = collections.save_file("mine.txt", b"Mine.", "assistants", tenant="t")
    collections.add_file(ferry.id, mine.id, tenant="t")
    collections.sync(ferry.id, [("a.txt", b"One."), ("b.txt", b"Two.")], tenant="t")
    other = collections.create("other", tenant="t")
    shared = next(f for f in collections.list_files(tenant="t") if f.name == "b.txt")
    collections.add_file(other.id, shared.id, tenant="t")
    if how == "deleted":
        collections.delete(ferry.id, tenant="t")
    else:
        for file in collections.list_collection_files(ferry.id, tenant="t"):
            collections.remove_file(ferry.id, file.file_id, tenant="t")
    assert sorted(f.name for f in collections.list_files(tenant="t")) == ["b.txt", "mine.txt"]


def test_a_synced_file_in_another_collection_keeps_its_bytes(
    collections: Collections, ferry: Collection
) -> None:
    collections.sync(ferry.id, [("a.txt", b"One.")], tenant="t")
    [file] = collections.list_files(tenant="t")
    other = collections.create("other", tenant="t")
    collections.add_file(other.id, file.id, tenant="t")
    collections.sync(ferry.id, [("a.txt", b"Two.")], tenant="t")
    assert collections.read_file(file.id, tenant="t") == b"One."


def test_missing_files_go_only_when_asked_for(collections: Collections, ferry: Collection) -> None:
    files = [("a.txt", b"One."), ("b.txt", b"Two."), ("c.txt", b"Three.")]
    collections.sync(ferry.id, files, tenant="t")
    assert collections.sync(ferry.id, files[:1], tenant="t").removed == ()
    result = collections.sync(ferry.id, files[:1], tenant="t", remove_missing=True)
    assert result.removed == ("b.txt", "c.txt")
    assert names(collections, ferry) == ["a.txt"]
    assert [f.name for f in collections.list_files(tenant="t")] == ["a.txt"]


def test_a_version_that_cannot_be_read_is_told_and_the_older_stays(
    collections: Collections, ferry: Collection
) -> None:
    collections.sync(ferry.id, [("a.html", b"<p>Good words.</p>")], tenant="t")
    result = collections.sync(ferry.id, [("a.html", b"")], tenant="t")
    assert list(result.failed) == ["a.html"]
    assert result.failed["a.html"].code == "unreadable_document"
    assert names(collections, ferry) == ["a.html"]
    assert len(collections.list_collection_files(ferry.id, tenant="t")) == 2
    result = collections.sync(ferry.id, [("a.html", b"<p>Better words.</p>")], tenant="t")
    assert result.replaced == ("a.html",)
    [file] = collections.list_collection_files(ferry.id, tenant="t")
    assert file.last_error is None


def test_a_file_over_the_limit_is_told_and_the_rest_go_on(
    open_collections: OpenCollections,
) -> None:
    collections = open_collections(max_file_bytes=10)
    ferry = collections.create("ferry", tenant="t")
    result = collections.sync(ferry.id, [("a.txt", b"x" * 11), ("b.txt", b"Two.")], tenant="t")
    assert result.failed["a.txt"].code == "file_too_large"
    assert result.added == ("b.txt",)


def test_one_name_with_two_contents_is_refused(collections: Collections, ferry: Collection) -> None:
    with pytest.raises(InvalidCollectionError, match=r"'a\.txt' is given twice with different"):
        collections.sync(ferry.id, [("a.txt", b"One."), ("a.txt", b"Two.")], tenant="t")


def test_two_names_with_the_same_bytes_are_one_document(
    collections: Collections, ferry: Collection
) -> None:
    collections.sync(ferry.id, [("a.txt", b"One."), ("b.txt", b"One.")], tenant="t")
    assert names(collections, ferry) == ["a.txt"]
    collections.sync(ferry.id, [("a.txt", b"Two.")], tenant="t")
    documents = collections.corpus(ferry.id, tenant="t").documents
    assert [(d.name, d.text) for d in documents] == [("b.txt", "One."), ("a.txt", "Two.")]


def test_a_replacement_that_the_database_refuses_changes_nothing(
    collections: Collections, ferry: Collection, database: sqlalchemy.Engine
) -> None:
    collections.sync(ferry.id, [("a.txt", b"One.")], tenant="t")
    before = collections.corpus(ferry.id, tenant="t")
    with database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE DELETE ON documents BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    with pytest.raises(StorageError, match="nothing was changed"):
        collections.sync(ferry.id, [("a.txt", b"Two.")], tenant="t")
    assert collections.corpus(ferry.id, tenant="t") == before


def test_bytes_that_a_crash_left_without_a_collection_go_at_the_next_start(
    open_collections: OpenCollections,
) -> None:
    collections = open_collections()
    collections.save_file("a.txt", b"One.", "foreword_sync", tenant="t")
    mine = collections.save_file("b.txt", b"Two.", "assistants", tenant="t")
    assert open_collections().list_files(tenant="t") == [mine]


def test_unchanged_text_of_the_tenant_needs_no_model_in_another_collection(
    collections: Collections, ferry: Collection, embedder: CountingEmbedder
) -> None:
    files = [("book.md", handbook("ferries", "dogs"))]
    collections.sync(ferry.id, files, tenant="t")
    before = embedder.texts
    again = collections.create("again", tenant="t")
    assert collections.sync(again.id, files, tenant="t").embedded_chunks == 0
    assert embedder.texts == before
    stranger = collections.create("stranger", tenant="u")
    assert collections.sync(stranger.id, files, tenant="u").reused_chunks == 0, (
        "what others hold must not be told by how fast it goes"
    )


def test_syncing_sets_attributes_of_unchanged_files_too(
    collections: Collections, ferry: Collection
) -> None:
    files = [("a.txt", b"One.")]
    collections.sync(ferry.id, files, tenant="t")
    collections.sync(ferry.id, files, tenant="t", attributes={"year": 2026}, access=["hr"])
    [file] = collections.list_collection_files(ferry.id, tenant="t")
    assert (file.attributes, file.access) == ({"year": 2026}, ("hr",))
