"""Lines of a trace file, decoded one at a time; what is wrong is said with its line."""

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar

import msgspec

from bench.errors import TraceError

_GZIP_MAGIC = b"\x1f\x8b"
Row = TypeVar("Row")

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Time = Annotated[float, msgspec.Meta(ge=0)]


class HashedRow(msgspec.Struct):
    """What Mooncake's and Bailian's rows have alike; the unit of time is the format's own."""

    timestamp: _Time
    input_length: _Count
    output_length: _Count
    hash_ids: list[_Count]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file's bytes, unpacked where its first bytes are gzip's.

    Raises:
        TraceError: the file can't be opened or read.
    """
    try:
        with path.open("rb") as raw:
            if raw.peek(2).startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield io.BufferedReader(unpacked)
            else:
                yield raw
    except (EOFError, OSError) as error:
        raise TraceError(path, None, getattr(error, "strerror", None) or str(error)) from error


def json_rows(path: Path, row: type[Row]) -> Iterator[tuple[int, Row]]:
    """Each line's number and what it says; blank lines are passed over.

    Raises:
        TraceError: the file can't be read, or a line isn't such a row.
    """
    decoder = msgspec.json.Decoder(row)
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                yield number, decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise TraceError(path, number, _one_line(error)) from error


class InOrder:
    """Refuses a row that comes before the one above it: replays would be of another trace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_s = float("-inf")

    def check(self, number: int, at_s: float) -> float:
        """The time, unchanged.

        Raises:
            TraceError: the time is before that of the line above.
        """
        if at_s < self._last_s:
            problem = "goes back in time; sort the file by its timestamps first"
            raise TraceError(self._path, number, problem)
        self._last_s = at_s
        return at_s


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
