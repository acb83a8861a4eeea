"""On a real PostgreSQL: the queue, sync and deletions by several threads at once."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy

from retrieval import (
    AddedFile,
    CollectionFileNotFoundError,
    CollectionNotFoundError,
    Collections,
    FileStatus,
    HashingEmbedder,
    StoredFileNotFoundError,
    metadata,
)
from retrieval.tables import collection_files, documents, pending_embeddings
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow
CountTokens = Callable[[str], int]


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[sqlalchemy.Engine]:
    url = sqlalchemy.make_url(postgres.create_database()).set(drivername="postgresql+psycopg")
    engine = sqlalchemy.create_engine(url, pool_size=20)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def collections(
    database: sqlalchemy.Engine, tmp_path: Path, count_tokens: CountTokens
) -> Iterator[Collections]:
    opened = Collections(database, tmp_path, HashingEmbedder(), count_tokens, workers=3)
    yield opened
    opened.close()


def wait_until_done(collections: Collections, collection_id: str) -> None:
    deadline = time.monotonic() + 60
    while collections.size(collection_id, tenant="t").in_progress_files:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_queue_batches_sync_and_search(collections: Collections) -> None:
    ferry = collections.create("ferry", tenant="t", metadata={"a": "b"}, expires_after_days=3)
    ids = [
        collections.save_file(f"{n}.txt", f"Text {n}.".encode(), "assistants", tenant="t").id
        for n in range(20)
    ]
    files = [AddedFile(file_id=i, attributes={"n": 1.5, "yes": True}, access=("hr",)) for i in ids]
    batch = collections.enqueue_each(ferry.id, files, tenant="t")
    assert batch.in_progress == 20
    collections.queue.start()
    wait_until_done(collections, ferry.id)
    batch = collections.get_batch(ferry.id, batch.id, tenant="t")
    assert (batch.status, batch.completed) == (FileStatus.COMPLETED, 20)
    assert [d.file_id for d in collections.corpus(ferry.id, tenant="t").documents] == ids
    assert collections.search(ferry.id, "text", tenant="t") == []
    assert len(collections.search(ferry.id, "text", 20, tenant="t", groups=["hr"])) == 20
    result = collections.sync(
        ferry.id, [("0.txt", b"Text 0."), ("1.txt", b"Changed.")], tenant="t", remove_missing=True
    )
    assert (result.unchanged, result.replaced, len(result.removed)) == (("0.txt",), ("1.txt",), 18)
    copy = collections.create("copy", tenant="t")
    assert collections.sync(copy.id, [("x.txt", b"Changed.")], tenant="t").embedded_chunks == 0
    collections.cancel_batch(ferry.id, batch.id, tenant="t")
    assert [c.id for c in collections.overdue(time.time() + 34 * 86_400)] == [ferry.id]
    collections.delete(ferry.id, tenant="t")


def test_deletions_and_additions_at_once_leave_nothing_half_done(
    collections: Collections, database: sqlalchemy.Engine
) -> None:
    ferry = collections.create("ferry", tenant="t")
    others = [collections.create(f"o{n}", tenant="t") for n in range(3)]
    collections.queue.start()
    errors = (CollectionFileNotFoundError, CollectionNotFoundError, StoredFileNotFoundError)
    ended = threading.Event()

    def run(number: int) -> None:
        rounds = 0
        while not ended.is_set() or rounds < 4:
            rounds += 1
            data = f"Text {rounds % 5}. ".encode() * 20
            file = collections.save_file(f"{rounds % 5}.txt", data, "assistants", tenant="t")
            home = [ferry, *others][rounds % 4]
            try:
                match (number + rounds) % 5:
                    case 0:
                        collections.enqueue_files(home.id, [file.id], tenant="t")
                    case 1:
                        collections.add_file(home.id, file.id, tenant="t")
                    case 2:
                        collections.delete_file(file.id, tenant="t")
                    case 3:
                        collections.remove_file(home.id, file.id, tenant="t")
                    case 4:
                        collections.sync(home.id, [(file.name, data)], tenant="t")
            except errors:
                continue
        return rounds

    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(run, n) for n in range(6)]
        time.sleep(6)
        ended.set()
        for future in running:
            future.result()
    for collection in (ferry, *others):
        wait_until_done(collections, collection.id)
        files = collections.list_collection_files(collection.id, tenant="t")
        corpus = collections.corpus(collection.id, tenant="t")
        assert {f.document_id for f in files} == {d.id for d in corpus.documents}
        for file in files:
            assert file.status is FileStatus.COMPLETED
            assert collections.read_file(file.file_id, tenant="t")
        assert {c.document_id for c in corpus.chunks} == {d.id for d in corpus.documents}
    with database.connect() as connection:
        for table, column in ((documents, "file_id"), (collection_files, "file_id")):
            named = sqlalchemy.select(table.c[column])
            stored = {f.id for f in collections.list_files(tenant="t")}
            assert set(connection.execute(named).scalars()) <= stored
        assert connection.execute(sqlalchemy.select(pending_embeddings)).all() == []
