"""The pieces of the prefix flame's tree, and how they become the nodes of a report."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from cache.flame import OTHER, FlameNode
from cache.page_keys import KEY_BYTES


class Sum(msgspec.Struct, gc=False):
    """Requests, their tokens, those whose re-use is known, and those that were re-used."""

    requests: int = 0
    served: int = 0
    known: int = 0
    cached: int = 0

    def add(self, other: "Sum") -> None:
        self.requests += other.requests
        self.served += other.served
        self.known += other.known
        self.cached += other.cached


class Piece(msgspec.Struct, eq=False):
    """Pages that each request passed wholly or not at all, and each re-used wholly or not at all.

    So it can be cut anywhere. `ends` sums what followed the last whole page of prompts that ended
    here, `other` what was cut off below. `salt` is that of all its requests, None for several.
    """

    keys: bytes
    label: str
    salt: str | None
    requests: int = 0
    known: int = 0
    cached: int = 0
    used: int = 0
    ends: Sum = msgspec.field(default_factory=Sum)
    other: Sum = msgspec.field(default_factory=Sum)
    children: "dict[bytes, Piece]" = msgspec.field(default_factory=dict)

    @property
    def pages(self) -> int:
        return len(self.keys) // KEY_BYTES

    def passed(self, page_tokens: int, *, pages: int | None = None) -> Sum:
        """Tokens of its requests within its pages; no requests, so that none counts twice."""
        tokens = (self.pages if pages is None else pages) * page_tokens
        return Sum(0, self.requests * tokens, self.known * tokens, self.cached * tokens)


def pieces(top: Piece) -> Iterator[Piece]:
    """A piece and all below it, each before those below it."""
    waiting = [top]
    while waiting:
        piece = waiting.pop()
        yield piece
        waiting += piece.children.values()


@dataclass(slots=True)
class _Row:
    """A node to be: its own figures, and in `total` also those of all below it."""

    parent: int
    label: str
    start: int
    tokens: int
    own: Sum
    other: Sum
    total: Sum = field(default_factory=Sum)
    children: list[FlameNode] = field(default_factory=list)


def export(root: Piece, *, page_tokens: int, max_nodes: int) -> FlameNode:
    """The `max_nodes` most served pieces as a tree; the others are put together as `OTHER`."""
    rows = _rows(root, page_tokens)
    for row in reversed(rows):
        row.total.add(row.own)
        row.total.add(replace(row.other, requests=0))
        if row.parent >= 0:
            rows[row.parent].total.add(replace(row.total, requests=0))
    # Nothing is served more than what is above it; a sort is stable, so that comes first.
    kept = set(sorted(range(len(rows)), key=lambda n: -rows[n].total.served)[: max(1, max_nodes)])
    for number in range(len(rows) - 1, 0, -1):
        parent, row = rows[rows[number].parent], rows[number]
        if number in kept:
            parent.children.append(_node(row))
        elif row.parent in kept:
            parent.other.add(row.total)
    return _node(rows[0])


def _rows(root: Piece, page_tokens: int) -> list[_Row]:
    """Each row comes after its parent's."""
    rows: list[_Row] = []
    waiting = [(root, 0, -1)]
    while waiting:
        first, page, parent = waiting.pop()
        last, pages = _stretch(first)
        own = Sum(first.requests)
        own.add(first.passed(page_tokens, pages=pages))
        own.add(replace(last.ends, requests=0))
        start, tokens = page * page_tokens, pages * page_tokens
        rows.append(_Row(parent, first.label, start, tokens, own, replace(last.other)))
        end = page + pages
        waiting += [(child, end, len(rows) - 1) for child in last.children.values()]
    return rows


def _stretch(piece: Piece) -> tuple[Piece, int]:
    """The last of the pieces that look like one from outside, and all their pages."""
    pages = piece.pages
    while pages and len(piece.children) == 1 and not piece.other.served and not piece.ends.served:
        (child,) = piece.children.values()
        counts = (child.requests, child.known, child.cached)
        if child.label or counts != (piece.requests, piece.known, piece.cached):
            break
        piece, pages = child, pages + child.pages
    return piece, pages


def _node(row: _Row) -> FlameNode:
    children = row.children
    if row.other.served:
        end = row.start + row.tokens
        children = [*children, _flame_node(OTHER, end, 0, row.other, [])]
    return _flame_node(row.label, row.start, row.tokens, row.own, children)


def _flame_node(
    label: str, start: int, tokens: int, own: Sum, children: list[FlameNode]
) -> FlameNode:
    return FlameNode(
        label=label,
        tokens=tokens,
        requests=own.requests,
        served_tokens=own.served,
        cached_tokens=own.cached if own.known else None,
        known_tokens=own.known,
        start=start,
        children=tuple(children),
    )
