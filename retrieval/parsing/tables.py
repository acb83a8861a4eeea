"""CSV and TSV: each row as text that can be understood without the table's head.

The column names become the heading, and stand again before each of a row's values. What a row has
too many is named by its number; what it has too few is left out.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from retrieval.documents import BlockKind
from retrieval.parsing.layout import Layout, Piece, join_pieces
from retrieval.parsing.limits import MAX_TEXT_CHARS, check_length

_DELIMITERS = ",;\t|"
_SAMPLE_CHARS = 1 << 16
_SAMPLE_ROWS = 50
_NUMBER = re.compile(r"[-+]?[\d.,:/\s%-]*\d[\d.,:/\s%-]*")


def table_layout(name: str, text: str, *, delimiter: str | None) -> Layout:
    """A table's rows as blocks.

    Args:
        text: cleaned.
        delimiter: what separates cells; None finds it out.

    Raises:
        ParsingLimitError: with the column names in each row it is more text than allowed.
    """
    rows = _rows(text, delimiter or _delimiter(text))
    first = next(rows, [])
    columns = _column_names(first)
    pieces = []
    if columns:
        pieces.append(Piece(text=", ".join(columns), kind=BlockKind.HEADING, level=1))
    else:
        pieces.append(_row_piece(columns, first))
    length = 0
    for row in rows:
        piece = _row_piece(columns, row)
        length += len(piece.text)
        check_length(name, length)
        pieces.append(piece)
    return join_pieces(pieces)


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Rows with something in them; outer white space of cells is left out.

    A quote that is never closed makes one cell of the rest: no word is lost.
    """
    # The limit is the process's, not the reader's; no cell is longer than a document may be.
    csv.field_size_limit(MAX_TEXT_CHARS)
    lines = (f"{line}\n" for line in text.split("\n"))
    for row in csv.reader(lines, delimiter=delimiter):
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield cells


def _delimiter(text: str) -> str:
    """The sign that cuts the first rows into the most equal number of cells, more than one."""
    sample = text[:_SAMPLE_CHARS].rsplit("\n", 1)[0]
    return max(_DELIMITERS, key=lambda delimiter: _evenness(sample, delimiter))


def _evenness(sample: str, delimiter: str) -> tuple[float, int]:
    reader = csv.reader(sample.split("\n"), delimiter=delimiter)
    widths = Counter(len(row) for row in islice(reader, _SAMPLE_ROWS) if row)
    if not widths:
        return 0.0, 0
    width, count = max(widths.items(), key=lambda item: (item[1], item[0]))
    return (count / widths.total() if width > 1 else 0.0), width


def _column_names(first: list[str]) -> list[str]:
    """The first row if it names columns, each name once; empty if it is data like the others."""
    if len(first) < 2 or any(_NUMBER.fullmatch(cell) for cell in first):
        return []
    seen: Counter[str] = Counter()
    names = []
    for position, cell in enumerate(first, start=1):
        name = " ".join(cell.split()) or f"column {position}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _row_piece(columns: list[str], row: list[str]) -> Piece:
    """`Name: Anna; Age: 3`, or a line for each cell where one of them has several lines."""
    fields = [
        f"{_column_name(columns, position)}: {cell}" if columns else cell
        for position, cell in enumerate(row)
        if cell
    ]
    separator = "\n" if any("\n" in cell for cell in row) else "; "
    return Piece(text=separator.join(fields), kind=BlockKind.LINES)


def _column_name(columns: list[str], position: int) -> str:
    return columns[position] if position < len(columns) else f"column {position + 1}"
