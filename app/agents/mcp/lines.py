"""Bytes to lines, however they come, without ever holding more of one than is taken. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

_END = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, without its end.

    Attributes:
        text: all of it; None where it was longer than is taken.
        head: its first bytes.
        tail: its last bytes.
        size: its length, bytes.
    """

    text: bytes | None
    head: bytes
    tail: bytes
    size: int


class LineReader:
    """Feed it chunks; `max_bytes` is the longest line that is kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._dropped = 0
        self._first = b""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that a chunk ends."""
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._take(part)
            yield self._line()
        self._take(rest)

    def _take(self, part: bytes) -> None:
        self._held += part
        if len(self._held) > self._max_bytes:
            if not self._dropped:
                self._first = bytes(self._held[:_END])
            self._dropped += len(self._held) - _END
            del self._held[:-_END]

    def _line(self) -> Line:
        held, size = bytes(self._held), self._dropped + len(self._held)
        line = Line(
            text=None if self._dropped else held,
            head=self._first or held[:_END],
            tail=held[-_END:],
            size=size,
        )
        self._held.clear()
        self._dropped, self._first = 0, b""
        return line
