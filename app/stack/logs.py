"""A log file per process: one run in one file, the run before beside it."""

import shutil
from pathlib import Path
from typing import IO

LARGEST_LOG_BYTES = 64 * 1024 * 1024
LAST_LINES = 15
LAST_LINES_BYTES = 16 * 1024


def previous(log: Path) -> Path:
    """Where the run before is kept."""
    return log.with_suffix(".previous.log")


def begin(log: Path) -> None:
    """Puts the last run's file aside and starts an empty one."""
    if log.exists():
        log.replace(previous(log))
    log.touch(mode=0o600)


def open_for_append(log: Path) -> IO[bytes]:
    """For a child's output: appending, so that ``shorten`` may cut the file under it."""
    return log.open("ab", buffering=0)


def shorten(log: Path, *, largest_bytes: int = LARGEST_LOG_BYTES) -> bool:
    """Once the file is too large, moves its content aside and goes on with an empty file.

    Copied and cut rather than renamed, because the child has the file open. Lines written
    between the two steps are lost.
    """
    if not log.exists() or log.stat().st_size <= largest_bytes:
        return False
    shutil.copyfile(log, previous(log))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def last_lines(log: Path, *, count: int = LAST_LINES) -> tuple[str, ...]:
    """The last non-empty lines; nothing if the file is not there."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LAST_LINES_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ()
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return tuple(lines[-count:])
