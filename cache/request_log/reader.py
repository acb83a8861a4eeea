"""A log's lines from a file or standard input, compressed or not, one at a time."""

import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cache.errors import RequestLogError
from cache.request_log.options import STANDARD_INPUT

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1 << 20


class NoRequestError(RequestLogError):
    """A request log in which no line holds a request."""

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"no request could be read from {self.path}{reason}; one JSON object a line is wanted"
        )


@contextmanager
def open_log(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a log; `-` is standard input. Gzip is told by its first bytes.

    Raises:
        RequestLogError: the file can't be opened or read, or its compression is damaged.
    """
    try:
        with _opened(path) as raw:
            yield _lines(raw, path)
    except OSError as error:
        raise RequestLogError(path=path, reason=error.strerror or str(error)) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        yield file


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    # Both a file and standard input are read through a buffer, so that one may look ahead.
    ahead = file.peek(2) if isinstance(file, io.BufferedReader) else b""
    if not ahead.startswith(_GZIP_MAGIC):
        yield from file
        return
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield from unpacked
    except (EOFError, gzip.BadGzipFile) as error:
        raise RequestLogError(path=path, reason=f"damaged gzip data: {error}") from error
