"""In which order the requests of batches are sent. Pure, and the same for the same input.

Within a batch: depth-first over the tree of what prompts share, so that a beginning is computed
once and used by all that have it before another needs its place. Sorted keys are that order.
Between batches: by turns, in runs that are short enough for the others and long enough for re-use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

# About a page of 64 tokens: what is shared by less isn't worth waiting for.
LEAST_SHARED_BYTES = 256
RUN_LINES = 32


class Place(NamedTuple):
    """A request's turn: its number in the file, and whether it leads.

    One that leads shares more with the next than with the one before. It is sent alone: those after
    it would compute what it computes, all at the same time.
    """

    number: int
    leads: bool


def prefix_order(keys: Sequence[bytes]) -> list[Place]:
    """The order of the requests with these keys; equal ones stay in the file's order."""
    order = sorted(range(len(keys)), key=lambda number: (keys[number], number))
    shared = [0]
    shared += [shared_bytes(keys[a], keys[b]) for a, b in pairwise(order)]
    shared.append(0)
    return [
        Place(number, leads=shared[at + 1] >= shared[at] + LEAST_SHARED_BYTES)
        for at, number in enumerate(order)
    ]


def shared_bytes(one: bytes, other: bytes) -> int:
    """How many leading bytes are equal."""
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


@dataclass(slots=True)
class Rotation:
    """Whose turn it is: each tenant's batches, and each batch, one after the other.

    A batch goes on for `run` requests while it can; then it is the turn of the tenant, and of its
    batch, that has waited longest.
    """

    run: int = RUN_LINES
    _current: str | None = None
    _left: int = 0
    _turn: int = 0
    _tenants: dict[str, int] = field(default_factory=dict)
    _batches: dict[str, int] = field(default_factory=dict)

    def take(self, ready: Sequence[tuple[str, str]]) -> str | None:
        """The batch that sends its next request.

        Args:
            ready: tenant and batch of those that could, the oldest first.
        """
        names = [batch for _, batch in ready]
        if self._current not in names or self._left <= 0:
            if not ready:
                return None
            self._change(ready)
        self._left -= 1
        return self._current

    def forget(self, batch: str) -> None:
        """It has ended."""
        self._batches.pop(batch, None)

    def _change(self, ready: Sequence[tuple[str, str]]) -> None:
        tenant, batch = min(
            ready, key=lambda each: (self._tenants.get(each[0], -1), self._batches.get(each[1], -1))
        )
        self._turn += 1
        self._tenants[tenant] = self._batches[batch] = self._turn
        self._current, self._left = batch, self.run
