"""The hint policy that SGLang can act on: one priority a request, as a time until which to keep it.

`--radix-eviction-policy priority` evicts by (priority, last use). A node's priority is never
lowered, and is raised to a request's own where the request passes through it, so a priority that
means "so important" piles up: what was important once stays so. One that means "until then"
doesn't: what nobody came back for passes by itself. It must not reach the scheduler, for which a
priority is an order of service: the engine is started without `--enable-priority-scheduling`.

How long a class is kept follows from what its members are worth by age and from the engine's
capacity, which a gateway knows: all are kept while they are worth more than one common figure, the
one at which what is kept just fits.
"""

import numpy as np

from bench.replay.openings import Watcher
from bench.replay.ranked import Key
from bench.replay.returns import EDGES_S, Class
from bench.replay.steps import Step

_RELEARN_EVERY = 100


class DeadlineHints:
    """A ranking: (keep until, last use), as the engine's priorities have it."""

    def __init__(self, capacity: int, page_tokens: int, *, longest_s: float = 600.0) -> None:
        """Args: longest_s: most that anything is kept beyond its last use."""
        self._capacity = capacity
        self._longest_s = longest_s
        self._watcher = Watcher(page_tokens)
        self._keep_s: dict[Class, float] = {}
        self._until_s = 0.0

    def begin(self, step: Step, now: int) -> None:
        """Decide how long the request's blocks are to be kept."""
        now_s = step.request.at_s if step.request.at_s is not None else float(now)
        opening = self._watcher.see(step, now_s)
        if now % _RELEARN_EVERY == 0 and now_s > 0:
            self._learn(now_s)
        self._until_s = now_s + self._keep_s.get(opening.own_class, 0.0)

    def first(self, now: int) -> Key:
        return (self._until_s, now)

    def again(self, key: Key, now: int) -> Key:
        return (max(key[0], self._until_s), now)

    def evicted(self, key: Key) -> None:
        """Nothing to note."""

    def _learn(self, now_s: float) -> None:
        """How long each class is kept so that what is kept fits."""
        returns = self._watcher.returns
        classes = returns.classes
        outlooks = [returns.outlook(which) for which in classes]
        per_s = np.array([returns.blocks(which) / now_s for which in classes])
        worth = np.array([outlook.worth for outlook in outlooks])
        kept_s = np.array([outlook.kept_s for outlook in outlooks])
        worth[:, self._longest_s < EDGES_S] = 0.0
        rows = np.arange(len(classes))
        low, high = 0.0, float(worth.max()) + 1e-9
        for _ in range(30):
            least = (low + high) / 2
            # The last age at which a member is still worth that much.
            until = _last_true(worth > least)
            if float((per_s * kept_s[rows, until]).sum()) > self._capacity:
                low = least
            else:
                high = least
        until = _last_true(worth > high)
        self._keep_s = dict(zip(classes, EDGES_S[until].tolist(), strict=True))


def _last_true(flags: "np.typing.NDArray[np.bool_]") -> "np.typing.NDArray[np.int64]":
    """One past the last true value of each row, within the row; 0 where there is none."""
    width = flags.shape[1]
    last = width - np.argmax(flags[:, ::-1], axis=1)
    return np.where(flags.any(axis=1), np.minimum(last, width - 1), 0)
