"""The hint policy in an engine that could do as it is told: what is worth least now goes first.

An upper mark for hints: such an engine would take new ranks for what it holds at any time. SGLang
0.5.23 can't; `bench.replay.deadline_hints` is what it can act on.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.replay.openings import Watcher
from bench.replay.returns import Class, age_bin
from bench.replay.run_lru import shared_length
from bench.replay.steps import Step

_RERANK_EVERY = 25
_RELEARN_EVERY = 100


@dataclass(slots=True, eq=False)
class _Run:
    """Held blocks that one request touched last; `behind` is the block before the first."""

    blocks: Sequence[int]
    behind: int | None
    which: Class
    at_s: float
    partial: bool


class IdealHintCache:
    """Runs of blocks by what they are worth."""

    def __init__(self, capacity: int, page_tokens: int) -> None:
        """`capacity` in blocks."""
        self.capacity = capacity
        self._watcher = Watcher(page_tokens)
        self._held_blocks = 0
        # Runs by their first block, and how many of them hang on a block.
        self._heads: dict[int, _Run] = {}
        self._hanging: Counter[int] = Counter()
        # Those whose last block isn't full, the newest last.
        self._partial: list[_Run] = []
        self._order: list[tuple[float, int, _Run]] = []
        self._pushed = 0
        self._worth: dict[Class, list[float]] = {}

    def __len__(self) -> int:
        return self._held_blocks

    def use(self, step: Step, now: int) -> int:
        """Compute and hold a request's path, as far as it fits; returns what was held of it."""
        now_s = step.request.at_s if step.request.at_s is not None else float(now)
        opening = self._watcher.see(step, now_s)
        if now % _RELEARN_EVERY == 0:
            self._worth.clear()
        if now % _RERANK_EVERY == 0:
            self._rank_all(now_s)
        path = step.path[: self.capacity]
        found = self._take(path)
        self._make_room(len(path), now_s)
        cut, whole = opening.shared, len(path) == len(step.path)
        if path[:cut]:
            self._hold(_Run(path[:cut], None, opening.shared_class, now_s, False), now_s)
        if path[cut:]:
            behind = path[cut - 1] if cut else None
            partial = opening.ends_partial and whole
            self._hold(_Run(path[cut:], behind, opening.own_class, now_s, partial), now_s)
        return found

    def _take(self, path: Sequence[int]) -> int:
        """What is held of a path, taken from the runs that had it; they keep what lies behind."""
        depth = 0
        while depth < len(path):
            run = self._heads.pop(path[depth], None)
            if run is None:
                break
            length = shared_length(run.blocks, path, depth)
            self._unhang(run)
            run.blocks = run.blocks[length:]
            depth += length
            if run.blocks:
                run.behind = path[depth - 1]
                self._heads[run.blocks[0]] = run
                self._hanging[run.behind] += 1
        self._held_blocks -= depth
        return depth

    def _hold(self, run: _Run, now_s: float) -> None:
        self._heads[run.blocks[0]] = run
        self._held_blocks += len(run.blocks)
        if run.behind is not None:
            self._hanging[run.behind] += 1
        if run.partial:
            self._partial.append(run)
        self._push(run, now_s)

    def _make_room(self, blocks: int, now_s: float) -> None:
        room = self.capacity - blocks
        while self._held_blocks > room and self._partial:
            run = self._partial.pop()
            if run.blocks and run.partial and not self._hanging[run.blocks[-1]]:
                self._drop_last(run)
        while self._held_blocks > room:
            if not self._order:
                self._rank_all(now_s)
            run = heapq.heappop(self._order)[2]
            while run.blocks and self._held_blocks > room and not self._hanging[run.blocks[-1]]:
                self._drop_last(run)
            if self._held_blocks <= room and run.blocks:
                self._push(run, now_s)

    def _drop_last(self, run: _Run) -> None:
        self._held_blocks -= 1
        run.partial = False
        if len(run.blocks) == 1:
            del self._heads[run.blocks[0]]
            self._unhang(run)
        run.blocks = run.blocks[:-1]

    def _unhang(self, run: _Run) -> None:
        if run.behind is not None:
            self._hanging[run.behind] -= 1
            if not self._hanging[run.behind]:
                del self._hanging[run.behind]

    def _rank_all(self, now_s: float) -> None:
        self._order = []
        for run in self._heads.values():
            self._push(run, now_s)

    def _push(self, run: _Run, now_s: float) -> None:
        worth = self._worth.get(run.which)
        if worth is None:
            outlook = self._watcher.returns.outlook(run.which)
            worth = self._worth[run.which] = outlook.worth.tolist()
        self._pushed += 1
        entry = (worth[age_bin(now_s - run.at_s)], self._pushed, run)
        heapq.heappush(self._order, entry)
