"""The prefix flame as a section: what prompts share, how often, and where they part. Pure."""

from dataclasses import dataclass

from cache.flame import FlameNode
from cache.report_numbers import UNKNOWN, count, share
from cache.report_parts import Align, Column, Inline, Label, Section, Table

_ROWS = 24
_DEPTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FlamePiece:
    """A node of the flame with its place in the tree and the sums over it and all below it.

    Attributes:
        place: its number among its parent's children, after its parent's own place: `0.2.1`.
        width_tokens: tokens served in it and in what follows it.
    """

    node: FlameNode
    place: str
    depth: int
    width_tokens: int
    known_tokens: int
    cached_tokens: int

    @property
    def rate(self) -> float | None:
        """Re-used tokens over those whose re-use is known: its own; at the root, and where a piece
        has none of its own, all below it."""
        cached, known = self._reuse
        return cached / known if known else None

    @property
    def reused(self) -> str:
        """The same in words."""
        cached, known = self._reuse
        return share(cached, known) if known else UNKNOWN

    @property
    def parts(self) -> int:
        """Into how many pieces prompts part after this one; 0 where they don't."""
        return len(self.node.children) if len(self.node.children) > 1 else 0

    @property
    def name(self) -> str:
        """Its label, or its place where nobody gave it one."""
        if self.node.label:
            return self.node.label
        return f"from token {count(self.node.start)}" if self.depth else "all prompts"

    @property
    def _reuse(self) -> tuple[int, int]:
        # What the root has of its own is only what fills no page.
        if self.depth and self.node.served_tokens:
            return self.node.cached_tokens or 0, self.node.known_tokens
        return self.cached_tokens, self.known_tokens


def pieces(root: FlameNode) -> list[FlamePiece]:
    """Every node, parents before their children, the widest child first."""
    return _pieces(root, "0", 0)


def _pieces(node: FlameNode, place: str, depth: int) -> list[FlamePiece]:
    below = [_pieces(child, f"{place}.{i}", depth + 1) for i, child in enumerate(node.children)]
    heads = [branch[0] for branch in below]
    own = FlamePiece(
        node=node,
        place=place,
        depth=depth,
        width_tokens=node.served_tokens + sum(head.width_tokens for head in heads),
        known_tokens=node.known_tokens + sum(head.known_tokens for head in heads),
        cached_tokens=(node.cached_tokens or 0) + sum(head.cached_tokens for head in heads),
    )
    below.sort(key=lambda branch: -branch[0].width_tokens)
    return [own, *(piece for branch in below for piece in branch)]


def flame_section(root: FlameNode) -> Section:
    """The widest parts of the prefix tree as an indented list, beside the icicle plot."""
    found = pieces(root)
    order = sorted(range(len(found)), key=lambda i: -found[i].width_tokens)[:_ROWS]
    left = len(found) - len(order)
    return Section(
        id="flame",
        title="Prefix flame: what prompts share, and where they part",
        short="Prefix flame",
        tables=[_table([found[i] for i in sorted(order)])],
        notes=[
            (
                "Served: tokens of all requests in the piece and in what follows it. Re-used: of "
                "the piece alone, and in the first row of all prompts. Prompts part after a piece "
                "that several follow.",
            ),
            *([(f"{count(left)} smaller pieces are not listed.",)] if left else []),
        ],
        plot="flame",
    )


def _table(shown: list[FlamePiece]) -> Table:
    return Table(
        caption="Pieces of prompts, as a tree",
        columns=(
            Column("piece", Align.LEFT),
            Column("tokens"),
            Column("requests"),
            Column("served"),
            Column("re-used"),
            Column("parts into"),
        ),
        rows=[_row(piece) for piece in shown],
    )


def _row(piece: FlamePiece) -> tuple[Inline, ...]:
    return (
        Label("· " * min(piece.depth, _DEPTH) + piece.name),
        count(piece.node.tokens),
        count(piece.node.requests),
        count(piece.width_tokens),
        piece.reused,
        count(piece.parts) if piece.parts else "",
    )
