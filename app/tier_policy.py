"""Watches whether each tier's loads beat computing, and switches off one that doesn't."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import structlog

from app.errors import TierServerError
from app.tier_client import BREAK_EVEN, TierClient
from app.tier_watch import TierWatch
from cache.break_even import (
    BreakEven,
    SwitchPhase,
    SwitchRules,
    SwitchState,
    TierVerdict,
    break_even,
    decide,
    has_enough_tokens,
    switched_off,
)
from cache.load_cost import LoadTotals, LoadTrack
from cache.prefill_speed import PrefillSpeed
from cache.tier_status import AdapterStatus, TierStatus

RAM = "ram"


class MeasuredSpeed(Protocol):
    """Whoever measures how fast prompts are computed."""

    @property
    def speed(self) -> PrefillSpeed | None:
        """None until enough was computed."""
        ...


class TierPolicy:
    """Break-even of one engine's tiers, by what a `TierWatch` sees of them.

    Args:
        switch: whether to switch tiers off and on; otherwise it only tells.
    """

    def __init__(
        self,
        tiers: TierClient,
        watch: TierWatch,
        speed: MeasuredSpeed,
        *,
        switch: bool = True,
        rules: SwitchRules | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tiers = tiers
        self._watch = watch
        self._speed = speed
        self._switch = switch
        self._rules = rules or SwitchRules()
        self._clock = clock
        self._instance: str | None = None
        self._tracks: dict[str, LoadTrack] = {}
        self._lookups_s: dict[str, float] = {}
        self._states: dict[str, SwitchState] = {}
        self._enabled: dict[str, bool] = {}
        self._found: dict[str, BreakEven] = {}
        self._log = structlog.get_logger()

    @property
    def status(self) -> TierStatus | None:
        """The last look; None while it can't be had."""
        return self._watch.status

    @property
    def found(self) -> Mapping[str, BreakEven]:
        """Each adapter's break-even by name, `ram` included, at the last look."""
        return MappingProxyType(self._found)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What an operator should know: the tiers that are slower than computing, and since when
        they are off. Empty where nothing is wrong, or nothing is known."""
        if self.status is None:
            return ()
        now = self._clock()
        lines = (self._reason(name, found, now) for name, found in sorted(self._found.items()))
        return tuple(line for line in lines if line)

    async def watch(self) -> None:
        """Take each look at the tiers, for ever."""
        while True:
            await self._watch.next_look()
            await self.advance()

    async def advance(self) -> None:
        """Take the last look at the tiers, and switch what should be switched.

        To be called once for each look: what it switches shows only in the next one.
        """
        status = self.status
        if status is None:
            return
        self._measure(status)
        for adapter in status.adapters:
            await self._steer(adapter)

    def _measure(self, status: TierStatus) -> None:
        if status.instance != self._instance:
            self._tracks = {name: LoadTrack() for name in self._tracks}
            self._instance = status.instance
        ram = LoadTotals(loads=None, bytes=status.ram.bytes, seconds=status.ram.seconds)
        self._advance_track(RAM, ram)
        for adapter in status.adapters:
            loads = adapter.loads
            totals = LoadTotals(loads=loads.tasks, bytes=loads.bytes, seconds=loads.seconds)
            self._advance_track(adapter.name, totals)
            asked = adapter.lookups.tasks - adapter.lookups.skipped
            self._lookups_s[adapter.name] = adapter.lookups.seconds / asked if asked > 0 else 0.0
        if status.chunk_bytes:
            # Like the adapters' bytes, a chunk's are of all ranks together.
            per_token = status.chunk_bytes / status.chunk_tokens
            self._found = {
                name: self._break_even(name, bytes_per_token=per_token) for name in self._tracks
            }

    def _advance_track(self, name: str, totals: LoadTotals) -> None:
        self._tracks[name] = self._tracks.get(name, LoadTrack()).advance(totals)

    def _break_even(self, name: str, *, bytes_per_token: float) -> BreakEven:
        """Every load is looked up first and passes from RAM to the engine at last: that time comes
        on top."""
        cost = self._tracks[name].cost(bytes_per_token=bytes_per_token)
        ram = self._tracks[RAM].cost(bytes_per_token=bytes_per_token)
        if cost is not None and ram is not None and name != RAM:
            cost = cost.after(ram)
        if cost is not None:
            cost = replace(cost, latency_s=cost.latency_s + self._lookups_s.get(name, 0.0))
        return break_even(cost, self._speed.speed)

    async def _steer(self, adapter: AdapterStatus) -> None:
        was_on, self._enabled[adapter.name] = self._enabled.get(adapter.name), adapter.enabled
        if was_on is False and adapter.enabled:
            # Somebody switched it on, with a reason: what was measured before says nothing now.
            self._states.pop(adapter.name, None)
            self._forget(adapter.name)
        found = self._found.get(adapter.name)
        if not self._switch or found is None:
            return
        if not adapter.enabled and not (adapter.reason or "").startswith(BREAK_EVEN):
            return  # an operator's own decision stands
        state = self._state_of(adapter)
        after = decide(state, found, rules=self._rules, at=self._clock())
        if after.wanted != adapter.enabled and not await self._put(adapter, found, after):
            return  # tried again at the next look
        if after.phase is SwitchPhase.TRIAL and state.phase is SwitchPhase.OFF:
            self._forget(adapter.name)
        self._states[adapter.name] = after

    def _forget(self, name: str) -> None:
        """Measure an adapter anew."""
        self._tracks[name] = self._tracks.get(name, LoadTrack()).forgotten()
        self._found[name] = break_even(None, self._speed.speed)

    def _state_of(self, adapter: AdapterStatus) -> SwitchState:
        """What we remember, unless the gateway was started anew since."""
        state = self._states.get(adapter.name, SwitchState())
        if not adapter.enabled and state.phase is not SwitchPhase.OFF:
            return switched_off(SwitchState(), rules=self._rules, at=self._clock())
        return state

    async def _put(self, adapter: AdapterStatus, found: BreakEven, after: SwitchState) -> bool:
        reason = BREAK_EVEN + ("tried again" if after.wanted else _comparison(found))
        try:
            await self._tiers.switch(adapter.name, enabled=after.wanted, reason=reason)
        except TierServerError as error:
            self._log.warning("tier_switch_failed", tier=adapter.name, problem=str(error))
            return False
        self._enabled[adapter.name] = after.wanted
        self._log.warning("tier_switched", tier=adapter.name, on=after.wanted, reason=reason)
        return True

    def _reason(self, name: str, found: BreakEven, now: float) -> str | None:
        state = self._states.get(name, SwitchState())
        if state.phase is SwitchPhase.OFF:
            left_s = max(0.0, state.retest_at - now)
            return (
                f"the {name} tier is switched off, since loading is slower than computing "
                f"({_comparison(found)}); it is tried again in {left_s:.0f} s"
            )
        if found.verdict is not TierVerdict.SLOWER or not self._enough(name, found):
            return None
        return f"loading from the {name} tier is slower than computing ({_comparison(found)})"

    def _enough(self, name: str, found: BreakEven) -> bool:
        """RAM's loads aren't counted, only their tokens."""
        loads = found.loads >= self._rules.least_loads or name == RAM
        return loads and has_enough_tokens(found, self._rules)


def _comparison(found: BreakEven) -> str:
    """`900 tokens/s and 0.50 s a load against 2,400 tokens/s`; only what is known."""
    if found.load_tokens_per_s is None or found.compute_tokens_per_s is None:
        return "not measured since"
    if not found.loaded_tokens:
        return (
            f"{found.latency_s or 0:.2f} s a load, of which nothing came in time, against "
            f"{found.compute_tokens_per_s:,.0f} tokens/s"
        )
    latency = f" and {found.latency_s:.2f} s a load" if found.latency_s else ""
    return (
        f"{found.load_tokens_per_s:,.0f} tokens/s{latency} against "
        f"{found.compute_tokens_per_s:,.0f} tokens/s"
    )
