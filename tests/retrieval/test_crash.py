"""A process killed while it ingests: each file is wholly in the collection or not at all.

Added at once, through the queue, in batches, replaced by `sync`, removed: whatever was going on.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy

from retrieval import Collection, Collections, FileStatus, HashingEmbedder, metadata
from retrieval.tables import pending_embeddings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = 40

# Ingests for ever: adds all files, removes every third one, again and again.
_WORKER = f"""
import sys
from pathlib import Path
import sqlalchemy
from retrieval import Collections, HashingEmbedder

home, name = Path(sys.argv[1]), sys.argv[2]
engine = sqlalchemy.create_engine(f"sqlite:///{{home / 'foreword.db'}}")
collections = Collections(engine, home / "retrieval", HashingEmbedder(), lambda t: len(t.split()))
ferry = collections.resolve("ferry", tenant="t")
collections.search(ferry.id, "warm up", tenant="t")
print("ready", flush=True)
while True:
    for number in range({FILES}):
        data = "\\n\\n".join(f"Paragraph {{i}} of {{number}}. " + "word " * 100 for i in range(20))
        file = collections.save_file(f"{{number}}.txt", data.encode(), "assistants", tenant="t")
        print(file.id, flush=True)
        collections.add_file(ferry.id, file.id, tenant="t")
        if number % 4 == 0:
            collections.search(ferry.id, "number", tenant="t")
    for file in collections.list_collection_files(ferry.id, tenant="t")[::3]:
        collections.remove_file(ferry.id, file.file_id, tenant="t")
"""

# Two threads: one enqueues batches and cancels some, one syncs changing versions and removes.
_BUSY_WORKER = f"""
import sys, threading
from pathlib import Path
import sqlalchemy
from retrieval import AddedFile, Collections, HashingEmbedder

home = Path(sys.argv[1])
engine = sqlalchemy.create_engine(f"sqlite:///{{home / 'foreword.db'}}")
collections = Collections(engine, home / "retrieval", HashingEmbedder(), lambda t: len(t.split()))
ferry = collections.resolve("ferry", tenant="t")
collections.queue.start()

def text(words, paragraphs=20):
    return "\\n\\n".join(f"Paragraph {{i}} of {{words}}. " + "word " * 100
                        for i in range(paragraphs)).encode()

def enqueue():
    for round in range(1000):
        ids = [collections.save_file(f"q{{n}}.txt", text(f"queued {{n}}", 60), "assistants",
                                     tenant="t").id for n in range({FILES})]
        for start in range(0, len(ids), 5):
            files = [AddedFile(file_id=i) for i in ids[start : start + 5]]
            batch = collections.enqueue_each(ferry.id, files, tenant="t")
            print(batch.id, flush=True)
            if start % 3 == 0:
                collections.cancel_batch(ferry.id, batch.id, tenant="t")

threading.Thread(target=enqueue, daemon=True).start()
print("ready", flush=True)
for round in range(1000):
    files = [(f"s{{n}}.txt", text(f"version {{round}} of {{n}}")) for n in range(round % 3, 8)]
    collections.sync(ferry.id, files, tenant="t", remove_missing=False)
    for file in collections.list_collection_files(ferry.id, tenant="t")[::5]:
        if file.status == "completed":
            collections.remove_file(ferry.id, file.file_id, tenant="t")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_kill_leaves_the_queue_able_to_go_on(tmp_path: Path, seed: int) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'foreword.db'}")
    metadata.create_all(engine)
    collections = open_collections(engine, tmp_path)
    ferry = collections.create("ferry", tenant="t")
    seen = run_and_kill(
        tmp_path, script=_BUSY_WORKER, delay_s=random.Random(seed).uniform(0.2, 2.5)
    )
    restarted = open_collections(engine, tmp_path)
    check_whole(restarted, ferry, engine)
    for batch_id in seen:
        if batch_id.startswith("vsfb_"):
            batch = restarted.get_batch(ferry.id, batch_id, tenant="t")
            assert batch.total <= 5
    restarted.queue.start()
    deadline = time.monotonic() + 60
    while restarted.size(ferry.id, tenant="t").in_progress_files:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    restarted.close()
    check_whole(restarted, ferry, engine)
    with engine.connect() as connection:
        query = sqlalchemy.select(sqlalchemy.func.count()).select_from(pending_embeddings)
        assert connection.execute(query).scalar_one() == 0
    names: list[str] = [d.name for d in restarted.corpus(ferry.id, tenant="t").documents]
    synced = [name for name in names if name.startswith("s")]
    assert len(synced) == len(set(synced)), "one version of each synced file"
    engine.dispose()


def check_whole(collections: Collections, ferry: Collection, engine: sqlalchemy.Engine) -> None:
    """Each file is wholly there or not at all, and what isn't completed has left nothing."""
    files = collections.list_collection_files(ferry.id, tenant="t")
    corpus = collections.corpus(ferry.id, tenant="t")
    count = Counter(chunk.document_id for chunk in corpus.chunks)
    for file in files:
        assert file.status is not FileStatus.FAILED
        if file.status is FileStatus.COMPLETED:
            assert file.chunk_count == count[file.document_id] in (20, 60)
        else:
            assert file.document_id is None
        assert collections.read_file(file.file_id, tenant="t")
    completed = {f.document_id for f in files if f.status is FileStatus.COMPLETED}
    assert {d.id for d in corpus.documents} == completed == set(count)
    waiting = {f.file_id for f in files if f.status is FileStatus.IN_PROGRESS}
    with engine.connect() as connection:
        kept = set(connection.execute(sqlalchemy.select(pending_embeddings.c.file_id)).scalars())
    assert kept <= waiting


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_moment_leaves_whole_files(tmp_path: Path, seed: int) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'foreword.db'}")
    metadata.create_all(engine)
    collections = open_collections(engine, tmp_path)
    ferry = collections.create("ferry", tenant="t")
    delay_s = random.Random(seed).uniform(0.02, 0.6)
    acknowledged = run_and_kill(tmp_path, script=_WORKER, delay_s=delay_s)

    restarted = open_collections(engine, tmp_path)
    for file_id in acknowledged:
        assert restarted.read_file(file_id, tenant="t"), "an acknowledged upload is there, whole"
    files = restarted.list_collection_files(ferry.id, tenant="t")
    chunks = restarted.corpus_chunks(ferry.id, tenant="t")
    for file in files:
        assert file.status is FileStatus.COMPLETED
        assert file.chunk_count == sum(c.document_id == file.document_id for c in chunks) == 20
    assert {c.document_id for c in chunks} == {file.document_id for file in files}
    found = restarted.search(ferry.id, "paragraph", 50, tenant="t")
    assert {s.chunk.id for s in found} <= {c.id for c in chunks}
    assert len(found) == min(50, len(chunks))
    assert not list((tmp_path / "retrieval").rglob("*.part"))
    engine.dispose()


def open_collections(engine: sqlalchemy.Engine, home: Path) -> Collections:
    return Collections(
        engine, home / "retrieval", HashingEmbedder(), lambda text: len(text.split())
    )


def run_and_kill(home: Path, *, script: str, delay_s: float) -> list[str]:
    """Ids of what the worker had acknowledged when it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(home), str(delay_s)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(delay_s)
        worker.send_signal(signal.SIGKILL)
        lines = worker.stdout.read().splitlines(keepends=True)
    assert worker.returncode == -signal.SIGKILL
    return [line.strip() for line in lines if line.endswith("\n")]
