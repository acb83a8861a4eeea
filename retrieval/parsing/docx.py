"""DOCX: headings, paragraphs, lists, tables and notes in the order of the document.

The package's XML is streamed through expat instead of built as a tree, so that a file's unpacked
size costs time but no memory. Deleted, hidden and field-code text is left out, inserted text is in.
"""

import posixpath
from collections.abc import Mapping

from retrieval.documents import BlockKind
from retrieval.parsing.archive import Package
from retrieval.parsing.docx_body import Body
from retrieval.parsing.docx_styles import Numbering, Styles, attribute
from retrieval.parsing.layout import Layout, Piece, join_pieces
from retrieval.parsing.xml_events import local_name, read_xml

_USUAL_MAIN_PART = "word/document.xml"
_NOTES = ("footnotes", "endnotes")


def docx_layout(name: str, data: bytes) -> Layout:
    """The text of a Word document; numbered lists and headings show their numbers.

    Footnotes and endnotes stand at the end, marked `[^2]` there and where they belong.

    Raises:
        UnreadableDocumentError: damaged, encrypted or not a Word document.
        ParsingLimitError: it unpacks to more than is allowed.
    """
    package = Package(name, data)
    main = _Relations.of(name, package, "").get("officeDocument", _USUAL_MAIN_PART)
    related = _Relations.of(name, package, main)
    styles, numbering = Styles(), Numbering()
    for kind, reader in (("styles", styles), ("numbering", numbering)):
        part = related.get(kind, "")
        if part in package:
            read_xml(name, package.pieces(part), reader)
    body = Body(name, styles, numbering)
    read_xml(name, package.pieces(main), body)
    for kind in _NOTES:
        part = related.get(kind, "")
        if part in package:
            read_xml(name, package.pieces(part), body)
    return join_pieces(_under_title(body.pieces))


def _under_title(pieces: list[tuple[Piece, bool]]) -> list[Piece]:
    """Headings one level deeper where a title stands above them all."""
    if not any(is_title for _, is_title in pieces):
        return [piece for piece, _ in pieces]
    return [
        Piece(text=piece.text, kind=piece.kind, level=min(piece.level + 1, 6))
        if piece.kind is BlockKind.HEADING and not is_title
        else piece
        for piece, is_title in pieces
    ]


class _Relations:
    """Reads which parts a part refers to; a `Handler`."""

    def __init__(self, folder: str) -> None:
        self.parts: dict[str, str] = {}
        self._folder = folder

    @classmethod
    def of(cls, name: str, package: Package, part: str) -> dict[str, str]:
        """Part names by the last word of the relation's type; empty if there are none."""
        folder, file = posixpath.split(part)
        relations = cls(folder)
        where = posixpath.join(folder, "_rels", f"{file}.rels")
        if where in package:
            read_xml(name, package.pieces(where), relations)
        return relations.parts

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if local_name(tag) == "Relationship" and attribute(attributes, "TargetMode") != "External":
            kind = attribute(attributes, "Type").rpartition("/")[2]
            target = posixpath.join("/", self._folder, attribute(attributes, "Target"))
            self.parts.setdefault(kind, posixpath.normpath(target).lstrip("/"))

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass
