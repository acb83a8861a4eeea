"""Where SGLang's metrics are kept, so that no full disk ends the engine.

prometheus_client 0.24 shares metrics between processes in maps of sparse files
(prometheus_client/mmap_dict.py:54, MmapedDict), which SGLang 0.5.23 puts into TMPDIR
(sglang/srt/utils/common.py:2825, set_prometheus_multiproc_dir). Who writes to a page of such a map
for which the disk has no room is ended by the kernel (SIGBUS). So

* the files lie in shared memory, where there is room for them, else in TMPDIR;
* each file has all of its blocks before it is mapped: without room there is an error, no signal;
* series that have no room any more are left out of /metrics, and the engine goes on.
"""

import errno
import fcntl
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from foreword_guard.errors import MetricsRoomError

SHARED_MEMORY = Path("/dev/shm")
PREFIX = "foreword_metrics_"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# An engine with one model begins with 0.7 MB; labels add to that as they are seen.
ROOM_BYTES = 16 * 2**20
_FILE_BYTES = 2**16
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def choose_folder(
    environment: Mapping[str, str], *, shared_memory: Path = SHARED_MEMORY
) -> Path | None:
    """A new, empty folder of this start, or None where the environment names one already.

    What starts that were killed have left is removed. The folder counts as used for as long as
    this process lives, and its forks.

    Raises:
        MetricsRoomError: there is room neither in shared memory nor in TMPDIR.
    """
    if environment.get(VARIABLE):
        return None
    _sweep(shared_memory)
    fallback = Path(environment.get("TMPDIR") or tempfile.gettempdir())
    for parent in (shared_memory, fallback):
        if _room_bytes(parent) >= ROOM_BYTES:
            return _make(parent)
    raise MetricsRoomError((shared_memory, fallback), ROOM_BYTES)


def preallocate() -> None:
    """Have prometheus_client's files take their room at once, in this process.

    Only where VARIABLE is set: prometheus_client decides when it is first imported whether there
    are files at all.
    """
    from prometheus_client.mmap_dict import MmapedDict

    made, grow = MmapedDict.__init__, MmapedDict._init_value
    read, write = MmapedDict.read_value, MmapedDict.write_value

    @functools.wraps(made)
    def make(self: Any, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            with Path(filename).open("ab") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    _take_first_room(file.fileno(), filename)
        made(self, filename, read_mode)

    @functools.wraps(grow)
    def take_room(self: Any, key: str) -> None:
        # A number, a padded key and two doubles: never more than this.
        needed = self._used + len(key.encode()) + 32
        capacity = self._capacity
        while needed > capacity:
            capacity *= 2
        if capacity > self._capacity:
            os.posix_fallocate(self._f.fileno(), 0, capacity)
        grow(self, key)

    @functools.wraps(read)
    def read_value(self: Any, key: str) -> tuple[float, float]:
        try:
            return read(self, key)
        except OSError as error:
            _say_no_room(self, error)
            return 0.0, 0.0

    @functools.wraps(write)
    def write_value(self: Any, key: str, value: float, timestamp: float) -> None:
        try:
            write(self, key, value, timestamp)
        except OSError as error:
            _say_no_room(self, error)

    MmapedDict.__init__ = make
    MmapedDict._init_value = take_room
    MmapedDict.read_value = read_value
    MmapedDict.write_value = write_value


def _take_first_room(descriptor: int, filename: str) -> None:
    try:
        os.posix_fallocate(descriptor, 0, _FILE_BYTES)
    except OSError as error:
        Path(filename).unlink()  # an empty one could not be read
        raise OSError(error.errno, f"{error.strerror} for metrics", filename) from error


def _say_no_room(file: Any, error: OSError) -> None:
    """Once for each file; anything but a lack of room is raised again."""
    if error.errno not in _NO_ROOM:
        raise error
    if getattr(file, "_foreword_said", False):
        return
    file._foreword_said = True
    sys.stderr.write(
        f"foreword_guard: {file._fname} can't grow ({error.strerror}): /metrics leaves out series "
        "until there is room.\n"
    )


def _make(parent: Path) -> Path:
    # Under its own name only once it is locked, or another engine's sweep could take it. The
    # descriptor is open, and the lock held, until this process and its forks have ended.
    made = Path(tempfile.mkdtemp(prefix="foreword_making_", dir=parent))
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return made.rename(parent / (PREFIX + made.name.removeprefix("foreword_making_")))


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or somebody else removed it meanwhile
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(descriptor)


def _room_bytes(folder: Path) -> int:
    """What a user may still write there; nothing where it isn't a folder to write in."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return 0
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize
