"""One request of a trace, and a trace: plain values that all readers make."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class TraceRequest(NamedTuple):
    """One request.

    Attributes:
        at_s: since the trace's beginning; None: the source has no times.
        blocks: chained ids of the prompt's blocks, each for its block and all before it; the last
            block may be only part of one. Empty where the source tells nothing of what is shared.
        session: which conversation it is a turn of; None: not known.
        template: which shared opening it has; None: not known.
        pieces: ids of the prompt's blocks by their own content alone, wherever they stand; empty
            where the source has only chained ones.
    """

    at_s: float | None
    blocks: Sequence[int]
    input_tokens: int
    output_tokens: int
    session: str | None = None
    template: str | None = None
    pieces: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace that can be gone through as often as needed; nothing of it is kept.

    Attributes:
        name: of the file without its folder, or what made it.
        block_tokens: tokens of a whole block; None where the source has no blocks.
        piece_tokens: tokens of a piece; None where the source has no pieces.
    """

    name: str
    block_tokens: int | None
    read: Callable[[], Iterator[TraceRequest]]
    piece_tokens: int | None = None

    def __iter__(self) -> Iterator[TraceRequest]:
        """The requests, in order of arrival."""
        return self.read()
