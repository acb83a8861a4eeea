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
from retrieval.parsing.layout import Layout

_FRONT_MATTER = re.compile(r"\A---\n.*?^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_LISTS = {"bullet_list_open", "ordered_list_open"}


def markdown_layout(text: str) -> Layout:
    """Cleaned Markdown with its headings, paragraphs, list items, tables, quotes and code blocks.

    Link definitions make no block of their own: they belong to the one before.
    """
    front = _FRONT_MATTER.match(text)
    offset = front.end() if front else 0
    headings = _block_starts(text[offset:], offset)
    headings.setdefault(0, None)
    return Layout(text=text, blocks=tuple(_blocks(text, headings)))


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str


def _block_starts(body: str, offset: int) -> dict[int, _Heading | None]:
    """Where each block starts, in characters, and the heading if it is one."""
    line_starts = [0, *accumulate(len(line) + 1 for line in body.split("\n"))]
    starts: dict[int, _Heading | None] = {}
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.map is not None and _opens_block(token):
            start = offset + line_starts[token.map[0]]
            starts.setdefault(start, _heading(token, following))
    return starts


def _opens_block(token: Token) -> bool:
    if token.type == "list_item_open":
        return True
    return token.level == 0 and token.nesting >= 0 and token.type not in _LISTS


def _heading(token: Token, following: Token | None) -> _Heading | None:
    if token.type != "heading_open" or following is None:
        return None
    return _Heading(int(token.tag[1]), " ".join(following.content.split()))


def _blocks(text: str, headings: dict[int, _Heading | None]) -> Iterator[Block]:
    for start, following in pairwise([*sorted(headings), len(text)]):
        end = start + len(text[start:following].rstrip())
        heading = headings[start]
        if end > start and heading is not None:
            yield Block(
                kind=BlockKind.HEADING,
                start=start,
                end=end,
                level=heading.level,
                title=heading.title,
            )
        elif end > start:
            yield Block(kind=BlockKind.BODY, start=start, end=end)
