"""Markdown: the source stays the text, markup included; its syntax only says where blocks are.

Models read Markdown well, and a citation's span then points into the file as it was written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise, zip_longest

from markdown_it import MarkdownIt
from markdown_it.token import Token

from retrieval.documents import Block, BlockKind
from retrieval.parsing.layout import Layout, short_title, table_title

_FRONT_MATTER = re.compile(r"\A---\n.*?^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_CODE = frozenset({"fence", "code_block"})
_LISTS = {"bullet_list_open", "ordered_list_open"}


def markdown_layout(text: str) -> Layout:
    """Cleaned Markdown with its headings, paragraphs, list items, tables, quotes and code blocks.

    Link definitions make no block of their own: they belong to the one before.
    """
    front = _FRONT_MATTER.match(text)
    offset = front.end() if front else 0
    starts = _block_starts(text[offset:], offset)
    starts.setdefault(0, _Start())
    return Layout(text=text, blocks=tuple(_blocks(text, starts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """What a block that starts here is; see `Block`."""

    kind: BlockKind = BlockKind.BODY
    level: int = 0
    title: str = ""


def _block_starts(body: str, offset: int) -> dict[int, _Start]:
    """What starts where, in characters."""
    lines = body.split("\n")
    line_starts = [0, *accumulate(len(line) + 1 for line in lines)]
    starts: dict[int, _Start] = {}
    # Without inline markup: it says nothing about blocks and takes most of the time.
    tokens = MarkdownIt("commonmark").enable("table").disable("inline").parse(body)
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.map is not None and _opens_block(token):
            start = offset + line_starts[token.map[0]]
            starts.setdefault(start, _start(token, following, lines))
    return starts


def _opens_block(token: Token) -> bool:
    if token.type == "list_item_open":
        return True
    return token.level == 0 and token.nesting >= 0 and token.type not in _LISTS


def _start(token: Token, following: Token | None, lines: list[str]) -> _Start:
    if token.type == "heading_open" and following is not None:
        title = short_title(following.content)
        return _Start(kind=BlockKind.HEADING, level=int(token.tag[1]), title=title)
    if token.type == "table_open" and token.map is not None:
        return _Start(kind=BlockKind.LINES, title=table_title(lines[token.map[0]]))
    if token.type in _CODE:
        return _Start(kind=BlockKind.LINES)
    return _Start()


def _blocks(text: str, starts: dict[int, _Start]) -> Iterator[Block]:
    for first, following in pairwise([*sorted(starts), len(text)]):
        end = first + len(text[first:following].rstrip())
        start = starts[first]
        if end > first:
            yield Block(kind=start.kind, start=first, end=end, level=start.level, title=start.title)
