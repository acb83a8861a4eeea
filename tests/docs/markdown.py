"""Links, headings and words in code of a Markdown file, as GitHub and the site read them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PARSER = MarkdownIt().enable("table")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a page points to; `line` is that of its paragraph."""

    page: Path
    line: int
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A word or two in backticks."""

    page: Path
    line: int
    text: str


@cache
def _tokens(page: Path) -> tuple[Token, ...]:
    return tuple(_PARSER.parse(page.read_text("utf-8")))


def links(page: Path) -> Iterator[Link]:
    """Links and pictures."""
    for line, token in _inline(page):
        match token.type:
            case "link_open":
                yield Link(page=page, line=line, target=str(token.attrs["href"]))
            case "image":
                yield Link(page=page, line=line, target=str(token.attrs["src"]))


def code(page: Path) -> Iterator[Code]:
    """What stands in backticks, outside of blocks."""
    for line, token in _inline(page):
        if token.type == "code_inline":
            yield Code(page=page, line=line, text=token.content)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings; a second heading of the same words has `-1`."""
    seen: dict[str, int] = {}
    found = set()
    tokens = _tokens(page)
    for position, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        words = "".join(
            child.content
            for child in tokens[position + 1].children or []
            if child.type in ("text", "code_inline")
        )
        anchor = _NOT_IN_ANCHORS.sub("", words.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return frozenset(found)


def _inline(page: Path) -> Iterator[tuple[int, Token]]:
    line = 1
    for token in _tokens(page):
        if token.map is not None:
            line = token.map[0] + 1
        for child in token.children or ():
            yield line, child
