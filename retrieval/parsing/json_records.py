"""JSON and JSON Lines: records as readable lines, each block with its place in the document.

Nothing of the data is changed: numbers keep their spelling whatever their size, a key that stands
twice in an object is shown twice, in the file's order.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from retrieval.documents import BlockKind
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.layout import Layout, Piece, clean_text, join_pieces, short_title
from retrieval.parsing.limits import MAX_TEXT_CHARS, check_length
from retrieval.parsing.plain import decode

# The standard library's reader calls itself for each level.
_MAX_DEPTH = 200
# Values whose text is no longer than this stay together in one block: about a passage.
_BLOCK_CHARS = 600
# Lists of words and numbers up to this length stand on one line.
_INLINE_CHARS = 200
# Longer paths leave out their middle.
_PATH_PARTS = 8
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Object:
    """An object's members in order, equal keys included."""

    members: list[tuple[str, "_Value"]]


_Scalar: TypeAlias = str | bool | None
_Value: TypeAlias = "_Object | list[_Value] | _Scalar"
_Path: TypeAlias = tuple[str, ...]

_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=str, parse_float=str, parse_constant=str, strict=False
)


@dataclass(frozen=True, slots=True)
class _BrokenError(Exception):
    """Why a text is no JSON, and in which line."""

    why: str
    line: int


def is_json(data: bytes) -> bool:
    """Whether the bytes are one JSON object or array."""
    stripped = data.strip()
    if stripped[:1] + stripped[-1:] not in (b"{}", b"[]") or len(data) > MAX_TEXT_CHARS:
        return False
    try:
        _parsed(stripped.decode())
    except (_BrokenError, UnicodeDecodeError):
        return False
    return True


def json_layout(name: str, data: bytes, *, lines: bool) -> Layout:
    """A JSON document's values as lines `key: value`, large ones split into blocks with paths.

    Args:
        lines: each line is a document of its own (JSON Lines). What turns out to be the other of
            the two is read as that.

    Raises:
        UnreadableDocumentError: not JSON, or nested deeper than 200 levels.
        ParsingLimitError: more text than is allowed.
    """
    text = decode(name, data)
    readers = [_one_record, _line_records]
    first, second = reversed(readers) if lines else readers
    try:
        records = first(text)
    except _BrokenError as broken:
        try:
            records = second(text)
        except _BrokenError:
            why = f"it isn't valid JSON (line {broken.line:,}: {broken.why}); mend it."
            raise UnreadableDocumentError(name, why) from broken
    pieces: list[Piece] = []
    length = 0
    for path, value in records:
        for piece in _pieces(path, value):
            length += len(piece.text)
            check_length(name, length)
            pieces.append(piece)
    return join_pieces(pieces)


def _one_record(text: str) -> list[tuple[_Path, _Value]]:
    return [((), _parsed(text))]


def _line_records(text: str) -> list[tuple[_Path, _Value]]:
    records: list[tuple[_Path, _Value]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(((f"line {number}",), _parsed(line)))
            except _BrokenError as broken:
                raise _BrokenError(broken.why, number) from broken
    return records


def _parsed(text: str) -> _Value:
    """The value, its numbers as they are spelled.

    Raises:
        _BrokenError: not JSON, or too deep.
    """
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > _MAX_DEPTH:
            line = text.count("\n", 0, found.start()) + 1
            raise _BrokenError(f"it nests deeper than {_MAX_DEPTH} levels", line)
    try:
        value: _Value = _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        raise _BrokenError(exc.msg, exc.lineno) from exc
    return value


def _pieces(path: _Path, value: _Value) -> Iterator[Piece]:
    """Blocks in order: a value that is small enough as one, the members of a larger one apart."""
    if not isinstance(value, _Object | list) or _fits(value, _BLOCK_CHARS):
        yield _piece(path, value, _block(value))
        return
    together: list[str] = []
    size = 0
    for label, member_path, member in _members(path, value):
        lines = _labelled(label, member) if _fits(member, _BLOCK_CHARS) else None
        if together and (lines is None or _length(lines) + size > _BLOCK_CHARS):
            yield _piece(path, value, together)
            together, size = [], 0
        if lines is None:
            yield from _pieces(member_path, member)
        elif isinstance(value, _Object) or not isinstance(member, _Object | list):
            together.extend(lines)
            size += _length(lines)
        else:
            yield _piece(member_path, member, _block(member))
    if together:
        yield _piece(path, value, together)


def _members(path: _Path, value: "_Object | list[_Value]") -> Iterator[tuple[str, _Path, _Value]]:
    """Label, path and value of each."""
    if isinstance(value, _Object):
        for key, member in value.members:
            yield f"{key}:", (*path, short_title(key)), member
    else:
        before, last = path[:-1], path[-1] if path else ""
        for position, member in enumerate(value):
            yield "-", (*before, f"{last}[{position}]"), member


def _piece(path: _Path, value: _Value, lines: Sequence[str]) -> Piece:
    kept = path
    if len(path) > _PATH_PARTS:
        kept = (path[0], "\u2026", *path[2 - _PATH_PARTS :])
    return Piece(
        text=clean_text("\n".join(lines)).strip(),
        kind=BlockKind.LINES if isinstance(value, _Object | list) else BlockKind.BODY,
        path=kept,
    )


def _fits(value: _Value, size_chars: int) -> bool:
    """Whether a value's text is about that short; looks no further than it must."""
    pending: list[_Value] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, _Object):
            some = current.members[: size_chars + 1]
            size_chars -= sum(len(key) + 2 for key, _ in some)
            pending.extend(member for _, member in some)
        elif isinstance(current, list):
            size_chars -= 2 * len(current)
            pending.extend(current[: max(0, size_chars)])
        else:
            size_chars -= len(_spelled(current))
        if size_chars < 0:
            return False
    return True


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _block(value: _Value) -> list[str]:
    """A value's lines."""
    if isinstance(value, _Object):
        return [line for key, member in value.members for line in _labelled(f"{key}:", member)] or [
            "{}"
        ]
    if isinstance(value, list):
        inline = _inline(value)
        if inline is not None:
            return [inline]
        return [line for member in value for line in _labelled("-", member)]
    return _spelled(value).split("\n")


def _labelled(label: str, value: _Value) -> list[str]:
    """`label value` where that is one line; else its lines below the label, or beside a dash."""
    lines = _block(value)
    if len(lines) == 1 and _stays_on_line(value):
        return [f"{label} {lines[0]}"]
    if label == "-":
        return [f"{'-' if n == 0 else ' '} {line}" for n, line in enumerate(lines)]
    return [label, *(f"  {line}" for line in lines)]


def _stays_on_line(value: _Value) -> bool:
    if isinstance(value, _Object):
        return not value.members
    return not isinstance(value, list) or _inline(value) is not None


def _inline(values: "list[_Value]") -> str | None:
    """Short words and numbers with commas between them; None for anything else."""
    spelled: list[str] = []
    for value in values[:_INLINE_CHARS]:
        if isinstance(value, _Object | list):
            return None
        spelled.append(_spelled(value))
    line = ", ".join(spelled)
    if len(values) > len(spelled) or len(line) > _INLINE_CHARS or "\n" in line:
        return None
    return line if values else "[]"


def _spelled(value: _Scalar) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return value
