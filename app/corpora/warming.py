"""Warming: a corpus' KV computed, or loaded from the tiers, piece by piece, and then proven.

Each piece is a request for one token, whose prompt is the prefix up to the end of that piece, and
one token more: the last token of a prompt is always computed, and its page or chunk with it.
Between two pieces the engine serves others. An answer says how much of its prompt was re-used:
where that was all of it, the next piece is twice as long, so that what is held already is found
out in a few requests.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from app.engine import EngineClient
from app.probes import ask

# The engine's other requests get their turn: a piece's time is followed by this share of it, and by
# as long again where some are under way, since warmings go first in the engine's queue.
_PAUSE, _BUSY_PAUSE = 0.1, 1.0
_LONGEST_PAUSE_S, _LONGEST_BUSY_PAUSE_S = 1.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """What a warming did.

    Attributes:
        tokens: of the whole prefix.
        proven_tokens: those that the last request, made to prove it, re-used; None: not told.
        computed_tokens: of all pieces; None where the engine doesn't say.
        loaded_tokens: from the tiers; None where the engine doesn't say.
    """

    tokens: int
    proven_tokens: int | None
    computed_tokens: int | None
    loaded_tokens: int | None
    seconds: float

    @property
    def resident(self) -> bool:
        """Whether the engine held all of it at the end."""
        return self.proven_tokens is not None and self.proven_tokens >= self.tokens


@dataclass(slots=True, kw_only=True)
class Warming:
    """One warming under way.

    Attributes:
        step_tokens: most tokens that are computed in one request.
        multiple: of which a piece is, in tokens: a page, or a chunk of the tiers.
        priority: of the requests in the engine; None where it knows none.
        wanted: asked between the pieces; a warming that nobody wants any more ends.
        busy: whether users' requests are under way.
        learned: told of each prefix that the engine now holds, in tokens.
        done_tokens: the progress.
    """

    client: EngineClient
    ids: list[int]
    salt: str
    step_tokens: int
    multiple: int
    priority: int | None
    wanted: Callable[[], bool]
    busy: Callable[[], bool]
    learned: Callable[[int], None]
    done_tokens: int = 0
    _computed: int | None = 0
    _loaded: int | None = 0

    async def run(self) -> Warmed | None:
        """Warm it all; None where it wasn't wanted any more.

        Raises:
            EngineError: the engine can't be asked, or refuses.
        """
        started = time.monotonic()
        total, step, cached = len(self.ids), self.step_tokens, None
        while self.done_tokens < total:
            if not self.wanted():
                return None
            began, goal = time.monotonic(), self._goal(step)
            cached = await self._ask(goal)
            held = cached is not None and cached >= goal
            step = 2 * step if held else self.step_tokens
            self.done_tokens = goal
            self.learned(goal)
            if not held and goal < total:
                await anyio.sleep(self._pause_s(time.monotonic() - began))
        if cached is not None and cached < total:
            cached = await self._ask(total)
        return Warmed(
            tokens=total,
            proven_tokens=cached,
            computed_tokens=self._computed,
            loaded_tokens=self._loaded,
            seconds=time.monotonic() - started,
        )

    def _pause_s(self, spent_s: float) -> float:
        if self.busy():
            return min(_BUSY_PAUSE * spent_s, _LONGEST_BUSY_PAUSE_S)
        return min(_PAUSE * spent_s, _LONGEST_PAUSE_S)

    def _goal(self, step: int) -> int:
        """Where the next piece ends."""
        goal = self.done_tokens + step
        goal -= goal % self.multiple
        return min(max(goal, self.done_tokens + self.multiple), len(self.ids))

    async def _ask(self, goal: int) -> int | None:
        """Have the first `goal` tokens; returns how many of them were re-used, where it is told."""
        prompt = [*self.ids[:goal], self.ids[goal % len(self.ids)]]
        answer = await ask(self.client, prompt, salt=self.salt, priority=self.priority)
        cached, gpu = answer.cached_tokens, answer.gpu_tokens
        if cached is None:
            self._computed = self._loaded = None
            return None
        if self._computed is not None:
            self._computed += max(0, goal - cached)
        if gpu is None:
            self._loaded = None
        elif self._loaded is not None:
            self._loaded += cached - gpu
        return cached
