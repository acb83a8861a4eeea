"""From a segment's text back to its YAML file: each character's line, column and byte.

YAML strips indentation, folds lines and decodes escapes, so an offset in the text says little about
the file. A source map is a list of runs; in a verbatim run characters stand one for one, an atomic
run is a whole that can't be cut: an escape, a folded line end.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import yaml

_BREAK = re.compile("\r\n|[\r\n\x85]")
_LINE_END = re.compile("\r\n|[\r\n]")
_FOLD = "(?P<fold>[ \t]*(?:\r\n|[\r\n\x85])[ \t\r\n\x85]*)"
_PLAIN_ATOMS = re.compile(_FOLD)
_SINGLE_ATOMS = re.compile(f"(?P<escape>'')|{_FOLD}")
_DOUBLE_ATOMS = re.compile(
    "(?P<joined>\\\\(?:\r\n|[\r\n\x85])[ \t]*)"
    r"|(?P<escape>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.))"
    f"|{_FOLD}"
)
_SPELLINGS = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# What a plain scalar can hold anywhere without becoming something else.
_PLAIN = re.compile(r"[A-Za-z0-9 .,;()_{}%/|+=-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a file: line and column (in characters) from 1, byte from 0."""

    line: int
    column: int
    byte: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Characters `start <= i < stop` of the text come from the file's `file_start..file_stop`."""

    start: int
    stop: int
    file_start: int
    file_stop: int

    @property
    def verbatim(self) -> bool:
        return self.stop - self.start == self.file_stop - self.file_start


class SourceMap:
    """Maps one scalar's text to the file it was read from. Made when it is first asked."""

    def __init__(self, file: str, node: yaml.ScalarNode) -> None:
        """`file` is the whole file's text, from which `node` was composed."""
        self._file = file
        self._node = node

    def position(self, offset: int) -> Position:
        """Where the character at `offset` of the text stands (the text's end, for its length)."""
        index = self._index(offset)
        before = self._file[:index]
        breaks = list(_LINE_END.finditer(before))
        line_start = breaks[-1].end() if breaks else 0
        return Position(
            line=len(breaks) + 1, column=index - line_start + 1, byte=len(before.encode())
        )

    def bytes_of(self, start: int, stop: int) -> tuple[int, int] | None:
        """The file's bytes that can be replaced to replace `start <= i < stop` of the text.

        None where that is not so: part of an escape or of a fold, an empty line of a block (it has
        no indentation), or a block's end, which its header decides.
        """
        if self._node.style == "|" and _unsafe_in_block(self._node.value, start, stop):
            return None
        first, last = self._cut(start), self._cut(stop)
        return None if first is None or last is None else (self._byte(first), self._byte(last))

    def spell(self, text: str) -> str | None:
        """The text as it has to be written into this scalar; None where its style has no way."""
        match self._node.style:
            case '"':
                return "".join(_SPELLINGS.get(c) or _spell_character(c) for c in text)
            case "'" if text.isprintable():
                return text.replace("'", "''")
            case "|" if text.isprintable():
                return text
            case None | "" if _PLAIN.fullmatch(text):
                return text
        return None

    def _byte(self, index: int) -> int:
        return len(self._file[:index].encode())

    def _index(self, offset: int) -> int:
        run = self._run_at(offset)
        if offset >= run.stop:
            return run.file_stop
        return run.file_start + (offset - run.start if run.verbatim else 0)

    def _cut(self, offset: int) -> int | None:
        """Where the file is cut to cut the text before `offset`; None inside an atomic run."""
        run = self._run_at(offset)
        if run.verbatim or offset in (run.start, run.stop):
            return self._index(offset)
        return None

    def _run_at(self, offset: int) -> _Run:
        """The run that holds the character; the last one for the end of the text."""
        return self._runs[bisect_right(self._runs, offset, key=lambda run: run.start) - 1]

    @cached_property
    def _runs(self) -> tuple[_Run, ...]:
        file, node = self._file, self._node
        start, stop = node.start_mark.index, node.end_mark.index
        match node.style:
            case "|":
                runs = tuple(_literal(file, start, stop, node.value))
            case "'":
                runs = tuple(_flowing(file, start + 1, stop - 1, _SINGLE_ATOMS))
            case '"':
                runs = tuple(_flowing(file, start + 1, stop - 1, _DOUBLE_ATOMS))
            case None | "":
                runs = tuple(_flowing(file, start, stop, _PLAIN_ATOMS))
            case _:
                runs = ()
        if runs and runs[-1].stop == len(node.value) and _true(file, node.value, runs):
            return runs
        return (_Run(start=0, stop=len(node.value), file_start=start, file_stop=stop),)


def _unsafe_in_block(text: str, start: int, stop: int) -> bool:
    """Whether an edit would meet an empty line, the block's end, or blanks that open the block.

    YAML takes its indentation from the first line's.
    """
    opens_line = start == 0 or text[start - 1] == "\n"
    end = len(text.rstrip("\n"))
    if opens_line and (text.startswith("\n", start) or stop >= end):
        return True
    return stop > end or (not text[:start].strip() and text.startswith(" ", stop))


def _true(file: str, text: str, runs: tuple[_Run, ...]) -> bool:
    """Whether every verbatim run says what the file says."""
    return all(
        text[r.start : r.stop] == file[r.file_start : r.file_stop] or r.stop - r.start == 1
        for r in runs
        if r.verbatim
    )


def _literal(file: str, start: int, stop: int, text: str) -> Iterator[_Run]:
    """One run for each line, its line end included; the indentation lies between runs."""
    header = _BREAK.search(file, start, stop)
    index = header.end() if header else stop
    offset = 0
    for line in text.split("\n"):
        end = _BREAK.search(file, index, stop)
        raw_stop = end.start() if end else stop
        raw_start = max(index, raw_stop - len(line))
        yield _Run(start=offset, stop=offset + len(line), file_start=raw_start, file_stop=raw_stop)
        offset += len(line)
        if offset == len(text):
            return
        after = end.end() if end else stop
        yield _Run(start=offset, stop=offset + 1, file_start=raw_stop, file_stop=after)
        offset, index = offset + 1, after


def _flowing(file: str, start: int, stop: int, atoms: re.Pattern[str]) -> Iterator[_Run]:
    """Runs of a scalar whose lines fold: verbatim text with escapes and folds between."""
    offset, index = 0, start
    for atom in atoms.finditer(file, start, stop):
        plain = offset + atom.start() - index
        yield _Run(start=offset, stop=plain, file_start=index, file_stop=atom.start())
        offset, index = plain + _length(atom), atom.end()
        yield _Run(start=plain, stop=offset, file_start=atom.start(), file_stop=index)
    yield _Run(start=offset, stop=offset + stop - index, file_start=index, file_stop=stop)


def _length(atom: re.Match[str]) -> int:
    """Characters of text that an escape, a fold or a joined line end stands for."""
    if atom.lastgroup == "joined":
        return 0
    if atom.lastgroup == "escape":
        return 1
    return max(1, len(_BREAK.findall(atom.group())) - 1)


def _spell_character(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
