"""A file's bytes, and the way from byte offsets to lines and columns and back."""

import re
from bisect import bisect_right
from functools import cached_property
from pathlib import Path

from prompts.lint.findings import Place

_CHUNK = 4096
_LINE_END = re.compile(rb"\r\n|\r|\n")


class SourceFile:
    """The bytes of one file under the path it is shown by. Never changed after it is made."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data

    @cached_property
    def text(self) -> str:
        """The file as text, newlines and a byte-order mark kept.

        Raises:
            UnicodeDecodeError: the file is not UTF-8.
        """
        return self.data.decode()

    @cached_property
    def line_starts(self) -> list[int]:
        """Byte offset of each line's first byte; lines end with LF, CRLF or CR."""
        return [0, *(found.end() for found in _LINE_END.finditer(self.data))]

    def place(self, start: int, stop: int) -> Place:
        """The place of the bytes `start <= i < stop`."""
        line = bisect_right(self.line_starts, start)
        before = self.data[self.line_starts[line - 1] : start]
        column = len(before.decode(errors="replace")) + 1
        return Place(path=self.path, line=line, column=column, start=start, stop=stop)

    def line_place(self, line: int, byte_column: int = 0, stop: int | None = None) -> Place:
        """The place at a line (from 1) and a byte in it (from 0), as Python's `ast` counts them.

        It reaches to `stop`, or to the end of the line.
        """
        start = min(self.line_starts[line - 1] + byte_column, len(self.data))
        if stop is None:
            stop = start + len(self.data[start : self._line_end(line)].rstrip(b"\r\n"))
        return self.place(start, max(start, stop))

    def character_place(self, line: int, column: int) -> Place:
        """The place from a column in characters, as parse errors have it, to the line's end."""
        line = min(line, len(self.line_starts))
        before = self.line_text(line)[: column - 1]
        return self.line_place(line, len(before.encode()))

    def line_text(self, line: int, *, carriage_return: bool = False) -> str:
        """A line's text without its end, or with its `carriage_return`; bad bytes as U+FFFD."""
        data = self.data[self.line_starts[line - 1] : self._line_end(line)]
        return data.rstrip(b"\n" if carriage_return else b"\r\n").decode(errors="replace")

    def byte_offset(self, character: int) -> int:
        """The byte at which a character (from 0) of `text` starts."""
        if len(self.text) == len(self.data):
            return character
        chunk = min(character, len(self.text)) // _CHUNK
        rest = self.text[chunk * _CHUNK : character]
        return self._chunk_starts[chunk] + len(rest.encode())

    @cached_property
    def _chunk_starts(self) -> list[int]:
        """Byte offset of every `_CHUNK`th character: places in large files are found quickly."""
        starts = [0]
        for start in range(0, len(self.text), _CHUNK):
            starts.append(starts[-1] + len(self.text[start : start + _CHUNK].encode()))
        return starts

    def characters(self, start: int, stop: int) -> Place:
        """The place of the characters `start <= i < stop` of `text`."""
        return self.place(self.byte_offset(start), self.byte_offset(stop))

    def _line_end(self, line: int) -> int:
        return self.line_starts[line] if line < len(self.line_starts) else len(self.data)
