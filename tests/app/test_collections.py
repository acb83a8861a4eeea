"""The gateway's collections: their settings, their queue, and the end of expired ones."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from app.collections import Expiry, open_collections, open_embedder
from app.database import open_database
from app.deletions import KvDeletions, read_epochs
from app.errors import InvalidSettingError
from app.salts import Salts
from app.settings import RetrievalSettings, Settings
from app.tables import kv_deletions
from retrieval import (
    CollectionNotFoundError,
    Collections,
    EmbedderError,
    FileStatus,
    ProcessEmbedder,
)

pytestmark = pytest.mark.anyio
DAY = 86_400


@asynccontextmanager
async def opened(home: Path, **retrieval: object) -> AsyncIterator[Collections]:
    options = {"embedder": "hashing"} | retrieval
    settings = Settings(home=home, retrieval=RetrievalSettings(**options))
    database = open_database(home / "foreword.db")
    async with AsyncExitStack() as stack:
        stack.callback(database.dispose)
        yield open_collections(settings, database, stack, open_embedder(settings.retrieval))


def finished(collections: Collections, collection_id: str) -> list[FileStatus]:
    deadline = time.monotonic() + 30
    while collections.size(collection_id, tenant="t").in_progress_files:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [f.status for f in collections.list_collection_files(collection_id, tenant="t")]


async def test_the_queue_runs_with_the_services_and_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as collections:
        ferry = collections.create("ferry", tenant="t")
        file = collections.save_file("a.md", b"# Fares\n\nNine euros.", "assistants", tenant="t")
        collections.enqueue_files(ferry.id, [file.id], tenant="t")
        assert finished(collections, ferry.id) == [FileStatus.COMPLETED]
        collections.queue.stop()
        other = collections.save_file("b.md", b"# Dogs\n\nTwo euros.", "assistants", tenant="t")
        collections.enqueue_files(ferry.id, [other.id], tenant="t")
    async with opened(tmp_path) as collections:
        assert finished(collections, ferry.id) == [FileStatus.COMPLETED] * 2
        assert len(collections.search(ferry.id, "euros", tenant="t")) == 2


async def test_an_expired_collection_goes_with_its_kv_when_its_time_is_over(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as collections:
        database = open_database(tmp_path / "foreword.db")
        salts = Salts(b"0" * 32, read_epochs(database))
        forgotten: list[str] = []
        deletions = KvDeletions(database, salts, collections, None, forget=forgotten.append)
        kept = collections.create("kept", tenant="t", expires_after_days=365)
        gone = collections.create("gone", tenant="t", expires_after_days=1)
        salt = salts.of("t", gone.id)
        for after, is_there in ((30 * DAY, True), (32 * DAY, False)):
            clock = time.time() + after
            await Expiry(collections, deletions, now=lambda at=clock: at).delete_overdue()
            assert (gone.id in [c.id for c in collections.list_all(tenant="t")]) is is_there
        with pytest.raises(CollectionNotFoundError):
            collections.get(gone.id, tenant="t")
        assert collections.get(kept.id, tenant="t") == kept
        assert forgotten == [salt]
        with database.connect() as connection:
            assert len(connection.execute(kv_deletions.select()).all()) == 1
        database.dispose()


async def test_a_clock_that_is_a_year_ahead_for_a_moment_deletes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as collections:
        database = open_database(tmp_path / "foreword.db")
        salts = Salts(b"0" * 32, read_epochs(database))
        deletions = KvDeletions(database, salts, collections, None, forget=lambda _: None)
        kept = collections.create("kept", tenant="t", expires_after_days=1)
        ahead_s = 0.0
        expiry = Expiry(collections, deletions, now=lambda: time.time() + ahead_s)
        ahead_s = 365 * DAY
        await expiry.look()
        assert collections.get(kept.id, tenant="t") == kept
        database.dispose()


async def test_passages_longer_than_the_model_reads_are_refused_at_the_start(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        InvalidSettingError,
        match=r"FOREWORD_RETRIEVAL__CHUNK_TOKENS: it is 300, and 'all-minilm-l6-v2' reads no more "
        r"than 254 tokens",
    ):
        async with opened(tmp_path, embedder="all-minilm-l6-v2", chunk_tokens=300):
            pass


async def test_a_model_that_is_not_here_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="neither a folder nor in the Hugging Face cache"):
        async with opened(tmp_path, embedder="no-such/model"):
            pass


@pytest.mark.slow
async def test_the_model_is_loaded_at_the_start_where_there_is_something_to_ask(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, embedder="all-minilm-l6-v2") as collections:
        embedder = collections._embedder
        assert isinstance(embedder, ProcessEmbedder)
        collections.create("ferry", tenant="t")
        assert embedder.process_id is None
    async with opened(tmp_path, embedder="all-minilm-l6-v2") as collections:
        embedder = collections._embedder
        assert isinstance(embedder, ProcessEmbedder)
        deadline = time.monotonic() + 30
        while embedder.process_id is None:
            assert time.monotonic() < deadline
            await anyio.sleep(0.02)


async def test_the_end_does_not_wait_for_a_long_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as collections:
        ferry = collections.create("ferry", tenant="t")
        page = b"<div>" * 4_900 + b"x" + b"<p>word " * 1_000_000
        file = collections.save_file("long.html", page, "assistants", tenant="t")
        collections.enqueue_files(ferry.id, [file.id], tenant="t")
        deadline = time.monotonic() + 30
        while collections.progress(ferry.id, file.id, tenant="t").stage != "reading":
            assert time.monotonic() < deadline
            await anyio.sleep(0.02)
        await anyio.sleep(0.2)
        began = time.monotonic()
    # Reading it takes minutes; an end that kills the reader took 0.3 to 3 s on a busy machine.
    assert time.monotonic() - began < 60
    async with opened(tmp_path) as collections:
        assert collections.size(ferry.id, tenant="t").failed_files == 0
