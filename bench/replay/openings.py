"""What a gateway sees of a request before it is sent: which turn it is, and what others share.

Conversations are told by their blocks, as a trace without session ids wants: a request is the next
turn of the one whose path it continues. What came back, and after how long, is learnt on the way.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.replay.returns import LONGEST_S, Class, Returns
from bench.replay.run_lru import shared_length
from bench.replay.steps import Step

# Where groups end: blocks of a prompt, and blocks of it that nobody had before.
_LENGTHS = (2, 11, 39)
_NEW = (1, 2, 6, 19)
_LAST_TURN = 6
SHARED = "shared"
SESSION = "session"


class Opening(NamedTuple):
    """What is known of a request before it is sent.

    Attributes:
        shared: leading blocks that several conversations have.
        shared_class: of those.
        own_class: of the rest.
        ends_partial: whether its last block isn't full: an engine keeps whole pages only.
    """

    shared: int
    shared_class: Class
    own_class: Class
    ends_partial: bool


@dataclass(slots=True, eq=False)
class _Run:
    """Blocks that one request touched last; `uses` is the turn, or how many share them."""

    blocks: Sequence[int]
    which: Class
    at_s: float
    uses: int
    is_shared: bool
    partial: bool


class Watcher:
    """Sees all requests, in order; forgets what hasn't come back for over an hour."""

    def __init__(self, page_tokens: int) -> None:
        self.returns = Returns()
        self._page_tokens = page_tokens
        self._heads: dict[int, _Run] = {}
        self._by_age: deque[_Run] = deque()

    def see(self, step: Step, now_s: float) -> Opening:
        """A request comes; learns of what it asks for again."""
        path, heads = step.path, self._heads
        depth = shared = uses = turn = 0
        is_turn = False
        while depth < len(path):
            run = heads.pop(path[depth], None)
            if run is None:
                break
            length = shared_length(run.blocks, path, depth)
            self.returns.returned(
                run.which, after_s=now_s - run.at_s, share=length / len(run.blocks)
            )
            depth += length
            # An answer's first words stand in the block that the prompt left unfinished.
            is_turn = not run.is_shared and len(run.blocks) - length <= int(run.partial)
            if run.is_shared:
                shared, uses = depth, max(uses, run.uses)
            turn = run.uses
            run.blocks = run.blocks[length:]
            if run.blocks:
                heads[run.blocks[0]] = run
        if depth and not is_turn:
            shared, uses = depth, uses + 1
        if not is_turn:
            turn = 0
        partial = step.input_tokens % self._page_tokens != 0
        shared = max(0, min(shared, len(path) - 1))
        opening = Opening(
            shared,
            Class((SHARED, min(uses.bit_length(), 8)), 0),
            _own_class(len(path), len(path) - depth, turn + 1, shared),
            partial,
        )
        self._note(path, opening, uses, turn + 1, now_s)
        return opening

    def _note(
        self, path: Sequence[int], opening: Opening, uses: int, turn: int, now_s: float
    ) -> None:
        cut = opening.shared
        if cut:
            self._add(_Run(path[:cut], opening.shared_class, now_s, uses, True, False))
        if path:
            own = _Run(path[cut:], opening.own_class, now_s, turn, False, opening.ends_partial)
            self._add(own)
        while self._by_age and self._by_age[0].at_s < now_s - LONGEST_S:
            old = self._by_age.popleft()
            if old.blocks and self._heads.get(old.blocks[0]) is old:
                del self._heads[old.blocks[0]]

    def _add(self, run: _Run) -> None:
        self.returns.came(run.which, len(run.blocks))
        self._heads[run.blocks[0]] = run
        self._by_age.append(run)


def _own_class(blocks: int, new: int, turn: int, shared: int) -> Class:
    """The class of what a conversation has for itself; first turns have gaps of their own."""
    kind = ((SESSION, turn > 1), min(turn, _LAST_TURN), _group(new, _NEW))
    return Class(kind, (_group(blocks, _LENGTHS), min(shared, 2)))


def _group(value: int, ends: Sequence[int]) -> int:
    return sum(value > end for end in ends)
