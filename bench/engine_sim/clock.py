"""The stated cost of what the engine does, and real time passing in proportion to it."""

import time
from dataclasses import dataclass, field

import anyio

from bench.engine_sim.config import ClockConfig

# Shorter waits are gathered: a timer costs more than it would tell.
_SHORTEST_SLEEP_S = 0.001


def prefill_s(clock: ClockConfig, tokens: int) -> float:
    """Simulated seconds of one prefill batch with `tokens` uncached tokens."""
    return clock.prefill_overhead_s + tokens / clock.prefill_tokens_per_s


def tier_load_s(clock: ClockConfig, tokens: int) -> float:
    """Simulated seconds of a tier's answer that brings `tokens`."""
    return clock.tier_lookup_s + tokens / clock.tier_tokens_per_s


@dataclass(slots=True)
class Pacer:
    """Holds the simulation to real time times the speed-up without drift."""

    speedup: float
    _due: float = field(default_factory=time.perf_counter)

    async def spend(self, simulated_s: float) -> None:
        """Return when the simulated time has passed."""
        now = time.perf_counter()
        self._due = max(self._due, now - _SHORTEST_SLEEP_S) + simulated_s / self.speedup
        ahead_s = self._due - now
        await anyio.sleep(ahead_s if ahead_s > _SHORTEST_SLEEP_S else 0)
