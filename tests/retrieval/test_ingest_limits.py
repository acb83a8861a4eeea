"""Files and disks at their limits: one clear error, and nothing half done."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval import Collections, FileTooLargeError

ROOT = Path(__file__).parents[2]
OpenCollections = Callable[..., Collections]

# The kernel refuses to let any file grow beyond a limit, as a full disk would.
_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import sqlalchemy
from retrieval import Collections, HashingEmbedder, StorageError, metadata

home, what = Path(sys.argv[1]), sys.argv[2]
engine = sqlalchemy.create_engine(f"sqlite:///{home / 'foreword.db'}")
metadata.create_all(engine)
collections = Collections(engine, home / "retrieval", HashingEmbedder(), lambda t: len(t.split()))
ferry = collections.create("ferry", tenant="t")
text = " ".join(f"word{n}." for n in range(20_000)).encode()
small = collections.save_file("small.txt", b"Few words.", "assistants", tenant="t")
large = collections.save_file("large.txt", text, "assistants", tenant="t")
collections.add_file(ferry.id, small.id, tenant="t")
before = collections.corpus(ferry.id, tenant="t")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
now = (home / "foreword.db").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (now + 8192, resource.RLIM_INFINITY))
try:
    match what:
        case "save":
            collections.save_file("other.txt", text * 20, "assistants", tenant="t")
        case "add":
            collections.add_file(ferry.id, large.id, tenant="t")
        case "sync":
            collections.sync(ferry.id, [("small.txt", text[:-1])], tenant="t")
except StorageError as error:
    print(error)
assert collections.corpus(ferry.id, tenant="t") == before
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert collections.corpus(ferry.id, tenant="t") == before
collections.add_file(ferry.id, large.id, tenant="t")
assert not list(home.rglob("*.part"))
print("whole again")
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["save", "add", "sync"])
def test_a_full_disk_is_one_error_and_changes_nothing(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ON_A_FULL_DISK, str(tmp_path), what],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout.endswith("whole again\n"), done.stderr
    assert "nothing was changed. Check free space" in done.stdout


def test_a_file_of_200_mb_is_refused_before_anything_is_stored(
    open_collections: OpenCollections, tmp_path: Path
) -> None:
    collections = open_collections()
    with pytest.raises(FileTooLargeError, match="200,000,000 bytes, more than the 67,108,864"):
        collections.save_file("big.txt", bytes(200_000_000), "assistants", tenant="t")
    assert collections.list_files(tenant="t") == []
    assert not list((tmp_path / "retrieval").rglob("*.part"))


def test_a_file_at_the_limit_is_taken(open_collections: OpenCollections) -> None:
    collections = open_collections(max_file_bytes=1_000_000)
    data = b"words and words " * 62_500
    file = collections.save_file("big.txt", data, "assistants", tenant="t")
    ferry = collections.create("ferry", tenant="t")
    added = collections.add_file(ferry.id, file.id, tenant="t")
    assert added.chunk_count > 500
    assert added.usage_bytes > len(data)
    assert collections.size(ferry.id, tenant="t").usage_bytes == added.usage_bytes
