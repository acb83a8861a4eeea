"""The text of a DOCX file's main part and its notes, gathered from XML events."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from retrieval.documents import BlockKind
from retrieval.parsing.docx_styles import (
    Numbering,
    Styles,
    attribute,
    heading_level,
    value_of,
    whole_number,
)
from retrieval.parsing.layout import Piece, clean_text, table_title, words
from retrieval.parsing.limits import check_length
from retrieval.parsing.xml_events import local_name

# Text that readers don't see, properties as they were before a change, and the second form of
# what stands there already.
_SKIPPED = words(
    """
    del moveFrom delText instrText delInstrText Fallback sdtPr sectPr pPrChange rPrChange
    tblPrChange tcPrChange trPrChange tabs rubyPr
    """
)
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_OFF = frozenset({"0", "false", "off"})
# Notes that only draw the line above the others.
_SEPARATORS = frozenset({"separator", "continuationSeparator", "continuationNotice"})
_SPACES = re.compile(r"[ \t\u00a0]+")
_MAX_LIST_LEVEL = 8


@dataclass(slots=True)
class _Paragraph:
    """One that has begun: its text so far and its properties."""

    parts: list[str] = field(default_factory=list)
    style: str = ""
    outline: int | None = None
    number_id: str | None = None
    number_level: int | None = None


@dataclass(slots=True)
class _Table:
    """One that has begun: finished rows, and the text of the row and cell at hand."""

    rows: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    cell: list[str] = field(default_factory=list)


class Body:
    """Gathers pieces, each with whether it is the document's title; a `Handler`."""

    def __init__(self, name: str, styles: Styles, numbering: Numbering) -> None:
        self.pieces: list[tuple[Piece, bool]] = []
        self._name = name
        self._styles = styles
        self._numbering = numbering
        self._skip_depth = 0
        self._paragraphs: list[_Paragraph] = []
        self._tables: list[_Table] = []
        self._list: list[str] = []
        self._in_text = False
        self._is_hidden = False
        self._note = ""
        self._length = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local_name(tag)
        if self._skip_depth or name in _SKIPPED:
            self._skip_depth += 1
            return
        match name:
            case "p" if not _is_drawing(tag):
                self._paragraphs.append(_Paragraph())
            case "t":
                self._in_text = True
            case "r":
                self._is_hidden = False
            case "vanish":
                self._is_hidden = value_of(attributes).lower() not in _OFF
            case "tbl":
                self._start_table()
            case "footnoteReference" | "endnoteReference":
                self._add(_note_mark(name, attributes))
            case "footnote" | "endnote":
                if attribute(attributes, "type") in _SEPARATORS:
                    self._skip_depth = 1
                else:
                    self._note = f"{_note_mark(name, attributes)}: "
            case _ if name in _SIGNS:
                self._add(_SIGNS[name])
            case _ if self._paragraphs:
                self._property(self._paragraphs[-1], name, attributes)

    def end(self, tag: str) -> None:
        if self._skip_depth:
            self._skip_depth -= 1
            return
        match local_name(tag):
            case "p" if self._paragraphs and not _is_drawing(tag):
                self._end_paragraph(self._paragraphs.pop())
            case "t":
                self._in_text = False
            case "r":
                self._is_hidden = False
            case "tc" if self._tables:
                table = self._tables[-1]
                table.cells.append(_one_line(" ".join(table.cell)))
                table.cell.clear()
            case "tr" if self._tables:
                self._end_row(self._tables[-1])
            case "tbl" if self._tables:
                self._end_table(self._tables.pop())
            case "body" | "footnotes" | "endnotes":
                self._cut_list()

    def text(self, text: str) -> None:
        if self._in_text and not self._skip_depth:
            self._add(text)

    def _add(self, text: str) -> None:
        if self._paragraphs and not self._is_hidden:
            self._length += len(text)
            check_length(self._name, self._length)
            self._paragraphs[-1].parts.append(text)

    def _property(self, paragraph: _Paragraph, name: str, attributes: Mapping[str, str]) -> None:
        match name:
            case "pStyle":
                paragraph.style = value_of(attributes)
            case "outlineLvl":
                paragraph.outline = whole_number(value_of(attributes))
            case "numId":
                paragraph.number_id = value_of(attributes)
            case "ilvl":
                paragraph.number_level = whole_number(value_of(attributes))

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        text = clean_text("".join(paragraph.parts)).strip()
        if self._note and text:
            text, self._note = self._note + text, ""
        if not text:
            return
        if self._tables:
            self._tables[-1].cell.append(text)
            return
        mark, level = self._mark(paragraph)
        heading = self._heading_level(paragraph)
        if heading:
            self._cut_list()
            line = _one_line(f"{mark} {text}" if mark not in ("", "-") else text)
            piece = Piece(text=line, kind=BlockKind.HEADING, level=heading)
            self.pieces.append((piece, self._styles.is_title(paragraph.style)))
        elif mark:
            self._list.append(f"{'  ' * level}{mark} {text}")
        else:
            self._cut_list()
            self.pieces.append((Piece(text=text), False))

    def _heading_level(self, paragraph: _Paragraph) -> int:
        if paragraph.outline is not None:
            return heading_level(paragraph.outline)
        if self._styles.is_title(paragraph.style):
            return 1
        return self._styles.heading_level(paragraph.style)

    def _mark(self, paragraph: _Paragraph) -> tuple[str, int]:
        number_id, level = self._styles.numbering(paragraph.style)
        if paragraph.number_id is not None:
            number_id = paragraph.number_id
        if paragraph.number_level is not None:
            level = paragraph.number_level
        level = min(level, _MAX_LIST_LEVEL)
        return (self._numbering.mark(number_id, level) if number_id else ""), level

    def _cut_list(self) -> None:
        """Ends a list: its items are the lines of one block."""
        if self._list:
            self.pieces.append((Piece(text="\n".join(self._list), kind=BlockKind.LINES), False))
            self._list = []

    def _start_table(self) -> None:
        if not self._tables:
            self._cut_list()
        self._tables.append(_Table())

    def _end_row(self, table: _Table) -> None:
        while table.cells and not table.cells[-1]:
            table.cells.pop()
        row = " | ".join(table.cells)
        table.cells.clear()
        if row:
            table.rows.append(row)

    def _end_table(self, table: _Table) -> None:
        """A table in a cell becomes that cell's words."""
        if self._tables:
            self._tables[-1].cell.append(" ".join(table.rows))
        elif table.rows:
            text = "\n".join(table.rows)
            piece = Piece(text=text, kind=BlockKind.LINES, title=table_title(text))
            self.pieces.append((piece, False))


def _is_drawing(tag: str) -> bool:
    """Whether an element is DrawingML's (a chart's or a shape's), not WordprocessingML's."""
    return "/drawingml/" in tag


def _note_mark(name: str, attributes: Mapping[str, str]) -> str:
    """`[^2]` for a footnote, `[^e2]` for an endnote: the two are numbered apart."""
    return f"[^{'e' if name.startswith('endnote') else ''}{attribute(attributes, 'id')}]"


def _one_line(text: str) -> str:
    return _SPACES.sub(" ", text.replace("\n", " ")).strip()
