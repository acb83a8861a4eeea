"""Text put together block by block, in the one form that every parser hands on."""

import re
import unicodedata
from dataclasses import dataclass

from retrieval.documents import Block, BlockKind

# Form feed, vertical tab and the Unicode line ends separate lines; other control characters
# carry no text and would only make equal-looking prompts differ.
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")


def clean_text(text: str) -> str:
    """The text in NFC with LF newlines and no control characters but newline and tab."""
    return unicodedata.normalize("NFC", _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A document's text and its blocks, in order."""

    text: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Cleaned text of one block, before it has a place."""

    text: str
    kind: BlockKind = BlockKind.BODY
    level: int = 0
    page: int | None = None


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
                title=piece.text if piece.kind is BlockKind.HEADING else "",
                page=piece.page,
            )
        )
        start = end + 2
    return Layout(text="\n\n".join(piece.text for piece in kept), blocks=tuple(blocks))
