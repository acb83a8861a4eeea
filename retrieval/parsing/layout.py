"""Text put together block by block, in the one form that every parser hands on."""

import re
import unicodedata
from dataclasses import dataclass

from retrieval.documents import Block, BlockKind

# Form feed, vertical tab and the Unicode line ends separate lines; other control characters
# carry no text and would only make equal-looking prompts differ.
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")
# Half of a UTF-16 pair can be written in JSON, but stands for nothing and can't be encoded.
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
# What needs no cleaning: most of most texts.
_PLAIN = re.compile(r"[\t\n -~]*")
_MAX_TITLE_CHARS = 300
_MAX_HEAD_CHARS = 200


def table_title(table: str) -> str:
    """A table's first row if it may be its head: several cells, none of them prose."""
    row = table.split("\n", 1)[0].strip("| \t")
    return row if " | " in row and len(row) <= _MAX_HEAD_CHARS else ""


def words(text: str) -> frozenset[str]:
    """A set of names, written as text."""
    return frozenset(text.split())


def clean_text(text: str) -> str:
    """The text in NFC with LF newlines and no control characters but newline and tab."""
    if _PLAIN.fullmatch(text):
        return text
    whole = _SURROGATES.sub("\ufffd", _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)))
    return unicodedata.normalize("NFC", whole)


def short_title(text: str) -> str:
    """A title on one line, cut off where it is longer than any heading need be.

    It is kept with each passage below it: one of a megabyte would be kept a thousand times.
    """
    line = " ".join(text[: 2 * _MAX_TITLE_CHARS].split())
    return (
        line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1].rstrip()}\u2026"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A document's text and its blocks, in order."""

    text: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Cleaned text of one block, before it has a place; see `Block` for the rest."""

    text: str
    kind: BlockKind = BlockKind.BODY
    level: int = 0
    title: str = ""
    page: int | None = None
    path: tuple[str, ...] | None = None


def join_pieces(pieces: list[Piece]) -> Layout:
    """The pieces with an empty line between each two; pieces of white space are left out."""
    kept = [piece for piece in pieces if piece.text.strip()]
    blocks: list[Block] = []
    start = 0
    for piece in kept:
        end = start + len(piece.text)
        blocks.append(
            Block(
                kind=piece.kind,
                start=start,
                end=end,
                level=piece.level,
                title=short_title(piece.text if piece.kind is BlockKind.HEADING else piece.title),
                page=piece.page,
                path=piece.path,
            )
        )
        start = end + 2
    return Layout(text="\n\n".join(piece.text for piece in kept), blocks=tuple(blocks))
