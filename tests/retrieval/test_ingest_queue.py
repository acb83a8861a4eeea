"""The ingest queue: durable, in order, across restarts; what becomes of each file is told."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy

from retrieval import (
    AddedFile,
    Collection,
    CollectionFile,
    CollectionFileNotFoundError,
    Collections,
    EmbedderError,
    EmbedderUnavailableError,
    FileBatch,
    FileBatchNotFoundError,
    FileStatus,
    HashingEmbedder,
    IngestStage,
    ParserUnavailableError,
    StorageError,
    StoredFileNotFoundError,
)
from retrieval.documents import ParsedDocument
from retrieval.embed import Vectors
from retrieval.ingest_queue import IngestQueue
from retrieval.parsing import parse
from retrieval.tables import collection_files, pending_embeddings

pytestmark = pytest.mark.slow

OpenCollections = Callable[..., Collections]


class GatedEmbedder(HashingEmbedder):
    """Waits for leave before each call; may be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.called = threading.Semaphore(0)
        self.errors: list[Exception] = []
        self.texts = 0

    def embed_passages(self, texts: list[str]) -> Vectors:
        self.called.release()
        assert self.gate.wait(120)
        if self.errors:
            raise self.errors.pop()
        self.texts += len(texts)
        return super().embed_passages(texts)


@pytest.fixture
def gated() -> GatedEmbedder:
    return GatedEmbedder()


@pytest.fixture
def collections(open_collections: OpenCollections, gated: GatedEmbedder) -> Iterator[Collections]:
    opened = open_collections(embedder=gated)
    yield opened
    gated.gate.set()
    opened.close()


@pytest.fixture
def ferry(collections: Collections) -> Collection:
    return collections.create("ferry", tenant="t")


def save(collections: Collections, name: str, text: str = "") -> str:
    data = (text or f"The text of {name}.").encode()
    return collections.save_file(name, data, "assistants", tenant="t").id


def enqueue_batch(
    collections: Collections, collection: Collection, file_ids: Sequence[str]
) -> FileBatch:
    files = [AddedFile(file_id=file_id) for file_id in file_ids]
    return collections.enqueue_each(collection.id, files, tenant="t")


def long_text(paragraphs: int) -> str:
    return "\n\n".join(f"Paragraph {n}. " + f"word{n} " * 90 for n in range(paragraphs))


def wait_until(is_so: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for(collections: Collections, collection: Collection) -> list[CollectionFile]:
    """The files, once none is in progress."""

    def files() -> list[CollectionFile]:
        return collections.list_collection_files(collection.id, tenant="t")

    wait_until(lambda: all(f.status is not FileStatus.IN_PROGRESS for f in files()))
    return files()


def count(database: sqlalchemy.Engine, table: sqlalchemy.Table) -> int:
    with database.connect() as connection:
        query = sqlalchemy.select(sqlalchemy.func.count()).select_from(table)
        return connection.execute(query).scalar_one()


def test_files_are_in_progress_at_once_and_completed_in_their_order(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    ids = [save(collections, f"{n}.txt") for n in range(5)]
    queued = collections.enqueue_files(ferry.id, ids, tenant="t")
    assert [f.status for f in queued] == [FileStatus.IN_PROGRESS] * 5
    assert collections.get(ferry.id, tenant="t").status == "in_progress"
    assert collections.size(ferry.id, tenant="t").in_progress_files == 5
    gated.gate.set()
    collections.queue.start()
    assert [f.status for f in wait_for(collections, ferry)] == [FileStatus.COMPLETED] * 5
    documents = collections.corpus(ferry.id, tenant="t").documents
    assert [d.file_id for d in documents] == ids
    assert collections.get(ferry.id, tenant="t").status == "completed"


def test_progress_tells_stage_and_chunks(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    file_id = save(collections, "long.txt", long_text(40))
    collections.enqueue_files(ferry.id, [file_id], tenant="t")
    waiting = collections.progress(ferry.id, file_id, tenant="t")
    assert (waiting.stage, waiting.done_chunks, waiting.total_chunks) == ("waiting", 0, None)
    collections.queue.start()
    gated.called.acquire()
    busy = collections.progress(ferry.id, file_id, tenant="t")
    assert busy.stage is IngestStage.EMBEDDING
    assert busy.done_chunks == 0
    assert busy.total_chunks is not None
    assert busy.total_chunks >= 40
    gated.gate.set()
    wait_for(collections, ferry)
    ended = collections.progress(ferry.id, file_id, tenant="t")
    assert (ended.stage, ended.done_chunks) == (IngestStage.ENDED, busy.total_chunks)
    with pytest.raises(CollectionFileNotFoundError):
        collections.progress(ferry.id, "file-none", tenant="t")


def test_a_restart_takes_up_what_was_left_and_embeds_no_slice_twice(
    open_collections: OpenCollections, database: sqlalchemy.Engine
) -> None:
    first = GatedEmbedder()
    collections = open_collections(embedder=first)
    ferry = collections.create("ferry", tenant="t")
    file_id = save(collections, "long.txt", long_text(80))
    collections.enqueue_files(ferry.id, [file_id], tenant="t")
    collections.queue.start()
    first.called.acquire()
    collections.queue.begin_stop()
    first.gate.set()
    collections.close()
    assert first.texts == 32
    assert count(database, pending_embeddings) == 32
    second = GatedEmbedder()
    second.gate.set()
    restarted = open_collections(embedder=second)
    assert restarted.list_collection_files(ferry.id, tenant="t")[0].status == "in_progress"
    restarted.queue.start()
    [file] = wait_for(restarted, ferry)
    restarted.close()
    assert file.status is FileStatus.COMPLETED
    assert second.texts == file.chunk_count - 32
    assert count(database, pending_embeddings) == 0


def test_a_file_whose_ingest_ends_the_process_each_time_is_given_up(
    open_collections: OpenCollections, database: sqlalchemy.Engine
) -> None:
    collections = open_collections()
    ferry = collections.create("ferry", tenant="t")
    collections.enqueue_files(ferry.id, [save(collections, "a.txt")], tenant="t")
    with database.begin() as connection:  # as three crashes would leave it
        connection.execute(sqlalchemy.update(collection_files).values(attempts=3))
    collections.queue.start()
    [file] = wait_for(collections, ferry)
    collections.close()
    assert file.status is FileStatus.FAILED
    assert file.last_error is not None
    assert file.last_error.code == "server_error"
    assert "'a.txt' was not ingested: it was tried 3 times" in file.last_error.message


def test_a_passing_fault_is_tried_again_and_a_lasting_one_told(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    gated.gate.set()
    gated.errors = [EmbedderError("e", "it is away.")]
    good = save(collections, "good.txt")
    collections.enqueue_files(ferry.id, [good], tenant="t")
    collections.queue.start()
    wait_until(lambda: collections.queue.problem is not None)
    assert "it is away" in str(collections.queue.problem)
    [file] = wait_for(collections, ferry)
    assert file.status is FileStatus.COMPLETED
    wait_until(lambda: collections.queue.problem is None)
    gated.errors = [ValueError("a bug")]
    bad = save(collections, "bad.txt", "Other words entirely.")
    collections.enqueue_files(ferry.id, [bad], tenant="t")
    file = wait_for(collections, ferry)[1]
    assert file.status is FileStatus.FAILED
    assert file.last_error is not None
    assert "an unexpected ValueError" in file.last_error.message


@pytest.mark.parametrize("absent", ["parser", "embedder"])
def test_what_no_file_can_help_makes_files_wait_and_counts_as_no_attempt(
    open_collections: OpenCollections, database: sqlalchemy.Engine, absent: str
) -> None:
    """However long it lasts: the last attempt is begun here, and is not the last."""
    away = threading.Event()
    away.set()

    def read(name: str, data: bytes) -> ParsedDocument:
        if absent == "parser" and away.is_set():
            raise ParserUnavailableError("no memory")
        return parse(name, data)

    class Embedder(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if absent == "embedder" and away.is_set():
                raise EmbedderUnavailableError(self.id, "no memory.")
            return super().embed_passages(texts)

    collections = open_collections(parse_file=read, embedder=Embedder())
    ferry = collections.create("ferry", tenant="t")
    collections.enqueue_files(ferry.id, [save(collections, "a.txt")], tenant="t")
    with database.begin() as connection:
        connection.execute(sqlalchemy.update(collection_files).values(attempts=2))
    collections.queue.start()
    wait_until(lambda: "no memory" in str(collections.queue.problem))
    [file] = collections.list_collection_files(ferry.id, tenant="t")
    assert file.status is FileStatus.IN_PROGRESS
    away.clear()
    assert wait_for(collections, ferry)[0].status is FileStatus.COMPLETED
    collections.close()


def test_a_long_queue_is_not_tried_to_its_end_while_nothing_can_be_read(
    open_collections: OpenCollections, database: sqlalchemy.Engine
) -> None:
    tried = []

    def read(name: str, data: bytes) -> ParsedDocument:
        tried.append(name)
        raise ParserUnavailableError("no memory")

    collections = open_collections(parse_file=read)
    ferry = collections.create("ferry", tenant="t")
    ids = [save(collections, f"{n}.txt") for n in range(130)]
    collections.enqueue_files(ferry.id, ids, tenant="t")
    clock = 0.0
    queue = IngestQueue(database, collections._ingester, clock=lambda: clock)
    while (job := queue._next()) is not None:
        queue._run(job)
    assert tried == [f"{n}.txt" for n in range(100)]
    clock = 1.5  # after the first pause those that were tried are tried again
    again = queue._next()
    assert again is not None
    assert again.file_id == ids[0]
    collections.close()


def test_an_unreadable_file_is_told_and_the_rest_go_on(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    gated.gate.set()
    bad = collections.save_file("bad.pdf", b"%PDF-1.4 nothing", "assistants", tenant="t").id
    batch = enqueue_batch(collections, ferry, [bad, save(collections, "good.txt")])
    collections.queue.start()
    files = wait_for(collections, ferry)
    assert [f.status for f in files] == [FileStatus.FAILED, FileStatus.COMPLETED]
    assert files[0].last_error is not None
    assert files[0].last_error.code == "unreadable_document"
    batch = collections.get_batch(ferry.id, batch.id, tenant="t")
    assert (batch.status, batch.failed, batch.completed) == (FileStatus.COMPLETED, 1, 1)
    assert len(collections.corpus(ferry.id, tenant="t").documents) == 1
    # Enqueued again it is tried again.
    again = collections.enqueue_files(ferry.id, [bad], tenant="t")
    assert again[0].status is FileStatus.IN_PROGRESS
    assert again[0].last_error is None


def test_a_cancelled_batch_keeps_what_is_done_and_drops_the_rest(
    collections: Collections, ferry: Collection, gated: GatedEmbedder, database: sqlalchemy.Engine
) -> None:
    done = save(collections, "done.txt")
    gated.gate.set()
    collections.add_file(ferry.id, done, tenant="t")
    gated.called.acquire()
    gated.gate.clear()
    busy = save(collections, "busy.txt", long_text(80))
    later = save(collections, "later.txt")
    batch = enqueue_batch(collections, ferry, [done, busy, later])
    assert (batch.status, batch.total, batch.completed) == (FileStatus.IN_PROGRESS, 3, 1)
    collections.queue.start()
    gated.called.acquire()
    cancelled = collections.cancel_batch(ferry.id, batch.id, tenant="t")
    assert (cancelled.status, cancelled.cancelled) == (FileStatus.CANCELLED, 2)
    gated.gate.set()
    collections.queue.stop()
    files = collections.list_batch_files(ferry.id, batch.id, tenant="t")
    assert [f.file_id for f in files] == [done, busy, later]
    assert [f.status.value for f in files] == ["completed", "cancelled", "cancelled"]
    assert [d.file_id for d in collections.corpus(ferry.id, tenant="t").documents] == [done]
    assert count(database, pending_embeddings) == 0
    with pytest.raises(FileBatchNotFoundError, match="no file batch 'vsfb_none'"):
        collections.cancel_batch(ferry.id, "vsfb_none", tenant="t")
    other = collections.create("other", tenant="t")
    with pytest.raises(FileBatchNotFoundError):
        collections.get_batch(other.id, batch.id, tenant="t")


@pytest.mark.parametrize("what", ["file of the collection", "file", "collection"])
def test_what_is_removed_while_it_is_ingested_stays_removed(
    collections: Collections,
    ferry: Collection,
    gated: GatedEmbedder,
    database: sqlalchemy.Engine,
    what: str,
) -> None:
    file_id = save(collections, "long.txt", long_text(80))
    collections.enqueue_files(ferry.id, [file_id], tenant="t")
    collections.queue.start()
    gated.called.acquire()
    match what:
        case "file of the collection":
            collections.remove_file(ferry.id, file_id, tenant="t")
        case "file":
            collections.delete_file(file_id, tenant="t")
        case "collection":
            collections.delete(ferry.id, tenant="t")
    gated.gate.set()
    collections.queue.stop()
    assert count(database, collection_files) == 0
    assert count(database, pending_embeddings) == 0
    assert collections.queue.problem is None
    if what != "collection":
        assert collections.corpus(ferry.id, tenant="t").documents == ()


def test_enqueuing_is_all_or_nothing(collections: Collections, ferry: Collection) -> None:
    good = save(collections, "good.txt")
    with pytest.raises(StoredFileNotFoundError):
        enqueue_batch(collections, ferry, [good, "file-none"])
    assert collections.list_collection_files(ferry.id, tenant="t") == []


def test_collections_are_served_side_by_side_and_in_turn(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    other = collections.create("other", tenant="t")
    collections.enqueue_files(
        ferry.id, [save(collections, f"{n}.txt") for n in range(3)], tenant="t"
    )
    collections.enqueue_files(other.id, [save(collections, "o.txt", "Else.")], tenant="t")
    collections.queue.start()
    for _ in range(2):  # two workers, one in each
        assert gated.called.acquire(timeout=60)
    gated.gate.set()
    wait_for(collections, ferry)
    assert [f.status for f in wait_for(collections, other)] == [FileStatus.COMPLETED]


def test_a_full_database_makes_files_wait_not_fail(
    collections: Collections, ferry: Collection, gated: GatedEmbedder, database: sqlalchemy.Engine
) -> None:
    gated.gate.set()
    collections.enqueue_files(ferry.id, [save(collections, "a.txt")], tenant="t")
    with database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON chunks BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    collections.queue.start()
    wait_until(lambda: collections.queue.problem is not None)
    assert "full" in str(collections.queue.problem)
    [file] = collections.list_collection_files(ferry.id, tenant="t")
    progress = collections.progress(ferry.id, file.file_id, tenant="t")
    assert "full" in str(progress.problem)
    assert collections.list_collection_files(ferry.id, tenant="t")[0].status == "in_progress"
    with database.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    assert wait_for(collections, ferry)[0].status is FileStatus.COMPLETED
    assert collections.progress(ferry.id, file.file_id, tenant="t").problem is None


def test_a_database_that_answers_again_is_not_complained_of(
    collections: Collections, database: sqlalchemy.Engine
) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE collection_files RENAME TO away")
    collections.queue.start()
    wait_until(lambda: collections.queue.problem is not None)
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO collection_files")
    wait_until(lambda: collections.queue.problem is None)


def test_a_refused_enqueue_changes_nothing(
    collections: Collections, ferry: Collection, database: sqlalchemy.Engine
) -> None:
    file_id = save(collections, "a.txt")
    with database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON collection_files"
            " BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    with pytest.raises(StorageError, match="nothing was changed"):
        enqueue_batch(collections, ferry, [file_id])
    assert collections.list_collection_files(ferry.id, tenant="t") == []


def test_two_writers_of_the_same_file_make_one_document(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    file_id = save(collections, "a.txt", long_text(40))
    collections.enqueue_files(ferry.id, [file_id], tenant="t")
    collections.queue.start()
    with ThreadPoolExecutor(4) as pool:
        adding = [
            pool.submit(collections.add_file, ferry.id, file_id, tenant="t") for _ in range(4)
        ]
        for _ in range(2):
            gated.called.acquire()
        gated.gate.set()
        added = [future.result() for future in adding]
    [file] = wait_for(collections, ferry)
    assert {f.document_id for f in added} == {file.document_id}
    assert all(f.status is FileStatus.COMPLETED for f in added)
    corpus = collections.corpus(ferry.id, tenant="t")
    assert len(corpus.documents) == 1
    assert len(corpus.chunks) == file.chunk_count


def test_attributes_and_access_travel_with_the_file(
    collections: Collections, ferry: Collection, gated: GatedEmbedder
) -> None:
    gated.gate.set()
    file_id = save(collections, "a.txt")
    collections.enqueue_files(
        ferry.id, [file_id], tenant="t", attributes={"year": 2026}, access=["hr", "board", "hr"]
    )
    collections.queue.start()
    [file] = wait_for(collections, ferry)
    assert file.attributes == {"year": 2026}
    assert file.access == ("board", "hr")
    corpus = collections.corpus(ferry.id, tenant="t")
    assert corpus.restricted
    assert corpus.chunks[0].attributes == {"year": 2026}
    assert corpus.documents[0].access == ("board", "hr")
    assert collections.search(ferry.id, "text", tenant="t") == []
    assert len(collections.search(ferry.id, "text", tenant="t", groups=["hr"])) == 1
    # Adding again without naming them keeps them; naming them changes them.
    assert collections.add_file(ferry.id, file_id, tenant="t").access == ("board", "hr")
    assert collections.add_file(ferry.id, file_id, tenant="t", access=()).access == ()
    assert collections.get_collection_file(ferry.id, file_id, tenant="t").attributes == {
        "year": 2026
    }
    assert len(collections.search(ferry.id, "text", tenant="t")) == 1
    assert not collections.corpus(ferry.id, tenant="t").restricted
