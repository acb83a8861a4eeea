"""The engine's metrics on a full disk: real processes, and real file systems of a few blocks."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreword_guard.errors import MetricsRoomError
from foreword_guard.metric_files import PREFIX, VARIABLE, choose_folder

SOURCES = Path(__file__).parents[3] / "deploy" / "engine-guard" / "src"

# One process that counts, in as many series as it is told, and shows what it has.
COUNT = """
import sys
from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess
from foreword_guard.metric_files import preallocate

if sys.argv[1] == "preallocated":
    preallocate()
counter = Counter("asked", "Requests", ["template"])
for number in range(int(sys.argv[2])):
    counter.labels(f"{'template ' * 10}{number}").inc()
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
shown = generate_latest(registry).decode()
print(sum(line.startswith("asked_total{") and line.endswith(" 1.0") for line in shown.splitlines()))
"""

# One start of an engine: says its folder, and lives until its stdin ends.
START = """
import os, sys
from pathlib import Path
from foreword_guard.metric_files import choose_folder
print(choose_folder({"TMPDIR": "/nowhere"}, shared_memory=Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("file systems can't be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def count(how: str, series: int, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", COUNT, how, str(series)],
        env={**os.environ, VARIABLE: str(folder), "PYTHONPATH": str(SOURCES)},
        check=False,
        capture_output=True,
        text=True,
    )


def start(shared_memory: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", START, str(shared_memory)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said_folder(process: "subprocess.Popen[str]") -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_a_folder_in_shared_memory_is_the_owners_alone(tmp_path: Path) -> None:
    folder = choose_folder({}, shared_memory=tmp_path)
    assert folder is not None
    assert folder.parent == tmp_path
    assert folder.name.startswith(PREFIX)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_room_in_shared_memory_it_lies_in_tmpdir(tmp_path: Path, small_disk: Path) -> None:
    folder = choose_folder({"TMPDIR": str(tmp_path)}, shared_memory=small_disk)
    assert folder is not None
    assert folder.parent == tmp_path


def test_without_room_anywhere_the_engine_does_not_start(small_disk: Path) -> None:
    with pytest.raises(MetricsRoomError, match="need 16 MiB") as refusal:
        choose_folder({"TMPDIR": str(small_disk)}, shared_memory=Path("/nowhere"))
    assert refusal.value.folders == (Path("/nowhere"), small_disk)


def test_a_folder_that_the_user_names_is_left_alone(tmp_path: Path) -> None:
    assert choose_folder({VARIABLE: "/mine"}, shared_memory=tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_next_start_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    with start(tmp_path) as killed, start(tmp_path) as living:
        dead, used = said_folder(killed), said_folder(living)
        (dead / "counter_1.db").write_bytes(b"x")
        killed.kill()
        killed.wait()
        mine = choose_folder({}, shared_memory=tmp_path)
        assert set(tmp_path.iterdir()) == {used, mine}
        assert living.stdin is not None
        living.stdin.close()


def test_a_full_disk_ends_who_writes_into_sparse_files(small_disk: Path) -> None:
    """Why there is a guard: prometheus_client as it is."""
    assert count("sparse", 3000, small_disk).returncode < 0


def test_series_without_room_are_left_out_and_the_process_goes_on(small_disk: Path) -> None:
    counted = count("preallocated", 3000, small_disk)
    assert counted.returncode == 0, counted.stderr
    assert 1000 < int(counted.stdout) < 3000
    assert counted.stderr.count("can't grow (No space left on device)") == 1


def test_without_room_for_the_first_block_there_is_an_error(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"\0" * (256 - 32) * 1024)
    counted = count("preallocated", 1, small_disk)
    assert counted.returncode == 1
    assert "No space left on device for metrics" in counted.stderr
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_with_room_every_series_is_shown(tmp_path: Path) -> None:
    assert count("preallocated", 3000, tmp_path).stdout.strip() == "3000"
