"""Text cut into pieces that stay whole when other parts of the text change.

A piece is a line with its end, or, of a long line, a sentence or an item. Joined, the pieces are
the text. Blocks are runs of pieces that belong together: paragraphs and marked documents.
"""

import re
from collections.abc import Sequence

_LONG_LINE = 240
_LONGEST_PIECE = 2_000
_CUT = 512
_ITEM = re.compile(r".+?(?:[.!?;,]\s+|[>}\]]\s*|[\r\n]+|$)", re.DOTALL)
_OPENING = re.compile(
    r"\s*(?:<(?:doc|document|passage|chunk|source|context|result|item|example|snippet|file)\b"
    r"|\[\d+\]|#+\s|(?:document|passage|source|chunk|example|result|snippet)\s*[#:\d])",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"</\w+>\s*$")


def split_pieces(text: str) -> list[str]:
    """The pieces of a text; joined, they are the text."""
    lines = text.splitlines(keepends=True)
    if all(len(line) <= _LONG_LINE for line in lines):
        return lines
    pieces: list[str] = []
    for line in lines:
        pieces += [line] if len(line) <= _LONG_LINE else _items(line)
    return pieces


def _items(line: str) -> list[str]:
    items: list[str] = []
    for item in _ITEM.findall(line):
        if len(item) <= _LONGEST_PIECE:
            items.append(item)
        else:
            items += [item[start : start + _CUT] for start in range(0, len(item), _CUT)]
    return items


def split_blocks(pieces: Sequence[str]) -> list[list[str]]:
    """Neighbouring pieces that belong together: paragraphs, marked documents, single list lines.

    A blank line belongs to the block before it.
    """
    blocks: list[list[str]] = []
    closed = True
    for piece in pieces:
        blank = not piece.strip()
        if (closed and not (blank and blocks)) or _OPENING.match(piece):
            blocks.append([])
        blocks[-1].append(piece)
        closed = blank or bool(_CLOSING.search(piece))
    return blocks
