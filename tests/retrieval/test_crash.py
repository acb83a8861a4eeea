"""A process killed while it ingests: each file is wholly in the collection or not at all."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy

from retrieval import Collections, FileStatus, HashingEmbedder, metadata

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


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_moment_leaves_whole_files(tmp_path: Path, seed: int) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'foreword.db'}")
    metadata.create_all(engine)
    collections = open_collections(engine, tmp_path)
    ferry = collections.create("ferry", tenant="t")
    acknowledged = run_and_kill(tmp_path, delay_s=random.Random(seed).uniform(0.02, 0.6))

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


def run_and_kill(home: Path, *, delay_s: float) -> list[str]:
    """Ids of the files whose upload the worker had acknowledged when it was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(home), str(delay_s)],
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
