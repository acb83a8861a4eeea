"""HTML: the words a reader sees, in reading order, with headings, list items and table rows.

Scripts, styles, form controls and elements marked `hidden` are left out. The tree is walked
without recursion, since whoever wrote the file chooses how deep it nests.
"""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from retrieval.documents import BlockKind
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.layout import Layout, Piece, clean_text, join_pieces, table_title, words
from retrieval.parsing.plain import decode_text

_SKIPPED = words(
    """
    script style noscript template head svg math iframe object embed canvas audio video select
    datalist textarea input button
    """
)
_INLINE = words(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark output q
    ruby rp rt s samp small span strike strong sub sup time tt u var wbr
    """
)
_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
# Their lines stay together in one block, with no empty line between items or rows.
_COMPACT = frozenset({"ul", "ol", "dl", "table"})
_SPACES = re.compile(r"[ \t\n\u00a0]+")
_LONE_ITEM_MARK = re.compile(r"-|\d+\.")
_ITEM_MARK_END = "\x1f"  # these two are control characters: cleaned text can't hold them
_CELL_END = "\x1e"
# The HTML5 algorithm costs the square of the depth: 8,000 levels take 0.3 s, 200,000 minutes.
# Browsers flatten pages at 512.
_MAX_DEPTH = 5_000
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
# Elements that need no end tag, or have none, say nothing about depth.
_SELF_ENDING = words(
    """
    area base body br caption col colgroup dd dt embed head hr html img input li link meta
    optgroup option p param rb rp rt rtc source tbody td tfoot th thead tr track wbr
    """
)


def html_layout(name: str, data: bytes) -> Layout:
    """The visible text of a page.

    The title becomes the first heading where the body has none of level 1.

    Raises:
        UnreadableDocumentError: not text in UTF-8 (or UTF-16 with a byte order mark), or nested
            deeper than 5,000 levels.
    """
    source = decode_text(name, data)
    if _max_depth(source) > _MAX_DEPTH:
        raise UnreadableDocumentError(
            name, f"its elements nest deeper than {_MAX_DEPTH:,}; save the page as text instead."
        )
    tree = LexborHTMLParser(source)
    hidden = frozenset(node.mem_id for node in tree.css("[hidden]"))
    pieces = _Reader().read(tree.body, hidden) if tree.body else []
    title = tree.css_first("title")
    if title is not None and not any(piece.level == 1 for piece in pieces):
        text = _SPACES.sub(" ", clean_text(title.text())).strip()
        pieces.insert(0, Piece(text=text, kind=BlockKind.HEADING, level=1))
    return join_pieces(pieces)


def _max_depth(source: str) -> int:
    """How deep elements nest at most, by start tags without an end tag so far."""
    depth = deepest = 0
    for end, tag in _TAG.findall(source):
        if tag.lower() not in _SELF_ENDING:
            depth = max(0, depth - 1) if end else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _walk(root: LexborNode, hidden: frozenset[int]) -> Iterator[tuple[LexborNode, str, int]]:
    """Visible nodes with their tags: elements when entered (1) and left (-1), texts once."""
    stack: list[LexborNode | tuple[LexborNode, str]] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            yield *node, -1
            continue
        tag = node.tag or ""
        if tag != "-text":
            if tag in _SKIPPED or (hidden and node.mem_id in hidden):
                continue
            if tag not in _INLINE:
                stack.append((node, tag))
            stack.extend(reversed(list(node.iter(include_text=True))))
        yield node, tag, 1


class _Reader:
    """Gathers text between the edges of block elements; used once for one page."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._parts: list[str] = []
        self._level = 0
        self._depths = {"pre": 0, "compact": 0, "cell": 0}
        self._counters: list[int | None] = []
        self._has_table = self._has_lines = False

    def read(self, body: LexborNode, hidden: frozenset[int]) -> list[Piece]:
        for node, tag, step in _walk(body, hidden):
            if tag == "-text":
                self._text(node)
            elif tag == "br":
                self._line_break(step)
            elif tag not in _INLINE and not tag.startswith("-"):
                self._edge(tag, step)
        self._cut()
        return self._pieces

    def _text(self, node: LexborNode) -> None:
        text = clean_text(node.text_content or "")
        self._parts.append(text if self._depths["pre"] else _SPACES.sub(" ", text))

    def _line_break(self, step: int) -> None:
        if step > 0:
            self._parts.append(" " if self._depths["cell"] or self._level else "\n")

    def _edge(self, tag: str, step: int) -> None:
        """The start (step 1) or end (step -1) of a block element."""
        compact = self._depths["compact"] - (step < 0 and tag in _COMPACT)
        if tag in ("td", "th"):
            self._depths["cell"] += step
            self._parts.append(_CELL_END if step < 0 else "")
        elif self._depths["cell"] and tag not in _HEADING_LEVELS:
            self._parts.append(" ")
        elif compact and tag not in _HEADING_LEVELS:
            if self._parts and not self._parts[-1].endswith(_ITEM_MARK_END):
                self._parts.append("\n")
        else:
            self._cut()
        self._enter_or_leave(tag, step)

    def _enter_or_leave(self, tag: str, step: int) -> None:
        if tag in _HEADING_LEVELS:
            self._level = _HEADING_LEVELS[tag] if step > 0 else 0
        if tag == "pre":
            self._depths["pre"] += step
        if tag in _COMPACT:
            self._depths["compact"] += step
        if step > 0:
            self._has_table = self._has_table or tag == "table"
            self._has_lines = self._has_lines or tag in _COMPACT or tag == "pre"
        if tag in ("ul", "ol"):
            if step > 0:
                self._counters.append(0 if tag == "ol" else None)
            else:
                self._counters.pop()
        if tag == "li" and step > 0:
            self._parts.append(self._item_mark())

    def _item_mark(self) -> str:
        counter = self._counters[-1] if self._counters else None
        if counter is None:
            return f"-{_ITEM_MARK_END}"
        self._counters[-1] = counter + 1
        return f"{counter + 1}.{_ITEM_MARK_END}"

    def _cut(self) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        text = text.strip("\n") if self._depths["pre"] else _tidy(text)
        kind = BlockKind.LINES if self._has_lines else BlockKind.BODY
        title = table_title(text) if self._has_table else ""
        if self._level:
            kind = BlockKind.HEADING
        if not _LONE_ITEM_MARK.fullmatch(text):
            self._pieces.append(Piece(text=text, kind=kind, level=self._level, title=title))
        self._has_table = self._has_lines = False


def _tidy(text: str) -> str:
    """Lines without outer spaces or empty cells at the end; no empty lines."""
    lines = (_tidy_line(line) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def _tidy_line(line: str) -> str:
    marked = line.replace(_ITEM_MARK_END, " ").rstrip(f" \t\u00a0{_CELL_END}")
    return " | ".join(_SPACES.sub(" ", cell).strip() for cell in marked.split(_CELL_END))
