"""A batch's files, however long they are: in order, each line once, whole or not at all."""

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import sqlalchemy as sa

from app.batches.files import OUTPUT_PURPOSE, BatchFiles
from app.batches.records import WINDOW_S, Batch, BatchStatus, ResultLine
from app.batches.results import result_lines
from app.tables import batch_lines, batches
from retrieval import RetrievalError
from retrieval.documents import content_id
from tests.app.batches.test_runner import Engine, Place, lines_of, opened

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
MIB = 2**20


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with opened(tmp_path) as made:
        yield made


def answered(place: Place, sizes: list[int | None], *, failed: int = 7) -> Batch:
    """A batch whose lines have results of these sizes, or none yet; each `failed`th is an error."""
    batch = place.batch(lines_of(1))
    rows = [
        {
            "batch_id": batch.id,
            "number": number,
            "place": number,
            "leads": False,
            "custom_id": f"q-{number}",
            "body": b"",
            "done": size is not None,
            "succeeded": None if size is None else number % failed != 0,
            "result": None if size is None else line(number, size),
        }
        for number, size in enumerate(sizes)
    ]
    with place.database.begin() as connection:
        changed = sa.update(batches).where(batches.c.id == batch.id)
        connection.execute(changed.values(status=BatchStatus.IN_PROGRESS, total=len(rows)))
        for start in range(0, len(rows), 100):
            connection.execute(sa.insert(batch_lines), rows[start : start + 100])
    return place.store.get(batch.id, tenant="a")


def line(number: int, size: int) -> bytes:
    text = f"{number}:" + "x" * size
    return orjson.dumps({"custom_id": f"q-{number}", "text": text}) + b"\n"


def parts(home: Path) -> list[Path]:
    return list((home / "retrieval" / "files").rglob("*.part"))


def test_each_line_is_read_once_in_order_whatever_is_read_at_a_time(place: Place) -> None:
    sizes = [
        (0, 10, 300_000, 3 * MIB, None)[(n * n) % 5 if n % 50 == 0 else n % 2] for n in range(1203)
    ]
    batch = answered(place, sizes)
    found = list(result_lines(place.database, batch.id, BatchStatus.EXPIRED))
    told = [orjson.loads(each.line) for each in found]
    assert [each["custom_id"] for each in told] == [f"q-{n}" for n in range(1203)]
    for number, (each, size) in enumerate(zip(found, sizes, strict=True)):
        if size is None:
            assert (each.succeeded, told[number]["error"]["code"]) == (False, "batch_expired")
        else:
            assert each == ResultLine(line=line(number, size), succeeded=number % 7 != 0)


async def test_a_long_batch_is_ended_in_little_memory(place: Place) -> None:
    """Its files are the same as if they were made of all lines at once."""
    sizes: list[int | None] = [64 * 1024] * 640
    sizes[100] = None
    batch = answered(place, sizes)
    place.now += WINDOW_S
    tracemalloc.start()
    try:
        async with place.running(Engine()):
            ended = await place.ended(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB
    output = b"".join(line(n, 64 * 1024) for n in range(640) if n != 100 and n % 7)
    assert len(output) > 4 * peak
    assert ended.output_file_id is not None
    assert place.collections.read_file(ended.output_file_id, tenant="a") == output
    name = f"{batch.id}_output.jsonl"
    assert ended.output_file_id == content_id("file", ("a", OUTPUT_PURPOSE, name, output))
    assert place.read(batch)[1] == [f"q-{n}" for n in range(640) if n == 100 or n % 7 == 0]


def test_files_written_before_a_crash_are_the_same_files_after_it(place: Place) -> None:
    batch = answered(place, [10, 20, 30])
    files = BatchFiles(place.collections)
    saved = [files.save(batch, place.store.results(batch.id, BatchStatus.COMPLETED)) for _ in "12"]
    assert saved[0] == saved[1]
    assert len(place.collections.list_files(tenant="a")) == 3


def test_no_file_is_made_of_no_lines(place: Place) -> None:
    batch = answered(place, [10, 20], failed=100)
    with place.database.begin() as connection:
        connection.execute(sa.update(batch_lines).values(succeeded=True))
    files = BatchFiles(place.collections)
    saved = files.save(batch, place.store.results(batch.id, BatchStatus.COMPLETED))
    assert saved.output is not None
    assert saved.errors is None
    assert len(place.collections.list_files(tenant="a")) == 2


def test_of_files_that_break_off_nothing_is_left(place: Place, tmp_path: Path) -> None:
    batch = answered(place, [MIB] * 8)

    def broken() -> Iterator[ResultLine]:
        yield from list(place.store.results(batch.id, BatchStatus.COMPLETED))[:5]
        assert parts(tmp_path), "what was written so far is on the disk"
        raise RetrievalError

    with pytest.raises(RetrievalError):
        BatchFiles(place.collections).save(batch, broken())
    assert parts(tmp_path) == []
    assert len(place.collections.list_files(tenant="a")) == 1


_WRITER = """
import sys, time
from pathlib import Path
from app.batches.files import BatchFiles
from app.batches.records import BatchStatus
from tests.app.batches.test_runner import opened

def half(results):
    for number, result in enumerate(results):
        if number == 6:
            print("half", flush=True)
            time.sleep(600)
        yield result

with opened(Path(sys.argv[1])) as place:
    batch = place.store.get(sys.argv[2], tenant="a")
    BatchFiles(place.collections).save(
        batch, half(place.store.results(batch.id, BatchStatus.COMPLETED))
    )
"""


def kill_half_way(home: Path, batch: Batch) -> None:
    command = [sys.executable, "-c", _WRITER, str(home), batch.id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()


@pytest.mark.slow
async def test_killed_half_way_it_leaves_nothing_to_be_seen_and_is_ended_later(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as place:
        batch = answered(place, [MIB] * 12)
    kill_half_way(tmp_path, batch)
    assert parts(tmp_path)
    with opened(tmp_path) as place:
        assert parts(tmp_path) == []
        [requests] = place.collections.list_files(tenant="a")
        assert requests.purpose == "batch"
        async with place.running(Engine()):
            ended = await place.ended(batch)
        assert ended.status is BatchStatus.COMPLETED
        assert place.read(batch) == (
            [f"q-{n}" for n in range(12) if n % 7],
            [f"q-{n}" for n in range(12) if n % 7 == 0],
        )
