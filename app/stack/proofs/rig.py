"""The running engine and its tiers, in the hands of a proof: ask, empty, switch, and put right."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from app.engine import EngineClient, EngineInfo
from app.errors import EngineResponseError, TierServerError
from app.probes import ProbeAnswer, ask, fresh_salt, low_priority
from app.stack.check import Check, problem
from app.stack.tier_checks import PROOF_REASON, switch_on_advice
from app.tier_client import TierClient
from cache.tier_status import AdapterState, AdapterStatus, TierStatus
from cache.usage import Tier

_NEW_TOKENS = 4
_STORE_S = 15.0
_FLUSH_S = 10.0
_WELL_S = 10.0
_STEP_S = 0.1
_ATTEMPTS = 3


class ProofRig:
    """One engine and its tier server, if any. `tell` hears what could not be put right."""

    def __init__(
        self,
        engine: EngineClient,
        tiers: TierClient | None,
        info: EngineInfo,
        *,
        tell: Callable[[Check], None],
    ) -> None:
        self.engine = engine
        self.tiers = tiers
        self._priority = low_priority(info.settings)
        self._tell = tell
        self._salts: list[str] = []

    def salt(self) -> str:
        """A new salt, which `clean_up` destroys."""
        self._salts.append(fresh_salt())
        return self._salts[-1]

    async def ask(self, ids: Sequence[int], *, salt: str | None) -> ProbeAnswer:
        """A short greedy answer with its log-probabilities."""
        return await ask(
            self.engine,
            ids,
            salt=salt,
            new_tokens=_NEW_TOKENS,
            priority=self._priority,
            logprobs=True,
        )

    async def forget(self, *, ram: bool) -> None:
        """Empty the engine's cache, and the tier server's RAM if asked.

        Raises:
            EngineResponseError: requests ran all the time, so the engine flushed nothing.
            TierServerError: the tier server refused.
        """
        deadline_s = time.monotonic() + _FLUSH_S
        while True:
            try:
                await self.engine.flush_cache(wait_s=1)
                break
            except EngineResponseError:
                if time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(_STEP_S)
        if ram and self.tiers is not None:
            await self.tiers.clear_ram()

    async def stored(self, before: TierStatus, *, chunks: int) -> None:
        """Return when new chunks lie in every adapter that can take them, or after a while."""
        assert self.tiers is not None
        at_first = {each.name: each.stores.chunks for each in before.adapters}
        deadline_s = time.monotonic() + _STORE_S
        while time.monotonic() < deadline_s:
            now = await self.tiers.status()
            below = [each for each in now.adapters if each.state is not AdapterState.FAILING]
            grew = [each.stores.chunks >= at_first.get(each.name, 0) + chunks for each in below]
            if all(grew) and (below or now.ram.used_bytes > before.ram.used_bytes):
                # Their locks in RAM are let go of a moment later.
                await asyncio.sleep(_STEP_S)
                return
            await asyncio.sleep(_STEP_S)

    async def is_well(self, adapter: str) -> bool:
        """Whether an adapter is used, within a while: after a late answer it rests for a second."""
        assert self.tiers is not None
        deadline_s = time.monotonic() + _WELL_S
        while True:
            now = await self.tiers.status()
            states = {each.name: each.state for each in now.adapters}
            if states.get(adapter) is AdapterState.OK or time.monotonic() > deadline_s:
                return states.get(adapter) is AdapterState.OK
            await asyncio.sleep(_STEP_S)

    async def served(self, answer: ProbeAnswer) -> dict[Tier, int] | None:
        """Tokens of an answer by the tier that they came from; None where that isn't known."""
        assert self.tiers is not None
        for _ in range(_ATTEMPTS):
            loaded = await self.tiers.load_of(answer.request_id)
            if loaded is not None:
                return dict(loaded.tokens(held_tokens=answer.gpu_tokens or 0))
            await asyncio.sleep(_STEP_S)
        return None

    @asynccontextmanager
    async def reading(self, adapter: str | None, status: TierStatus) -> AsyncIterator[None]:
        """While inside, the adapters before this one are switched off; None: as they are."""
        assert self.tiers is not None
        switched: list[AdapterStatus] = []
        try:
            for each in status.adapters:
                if adapter is None or each.name == adapter:
                    break
                if each.enabled:
                    # Noted first: a Ctrl-C may come between the request and its answer.
                    switched.append(each)
                    await self.tiers.switch(each.name, enabled=False, reason=PROOF_REASON)
            yield
        finally:
            for each in switched:
                await self.switch_on(each.name)

    async def switch_on(self, adapter: str) -> None:
        """Use an adapter again; what stands in the way is told, with the command for it."""
        assert self.tiers is not None
        trouble = "it was switched off again"
        for _ in range(_ATTEMPTS):
            try:
                await self.tiers.switch(adapter, enabled=True, reason="")
                await asyncio.sleep(_STEP_S)
                # An order to switch it off that was given up may still have been on its way.
                if await self._is_enabled(adapter):
                    return
            except TierServerError as error:
                trouble = str(error)
                await asyncio.sleep(_STEP_S)
        advice = switch_on_advice(adapter, url=self.tiers.url)
        self._tell(problem(f"tier {adapter}", f"stays switched off: {trouble}", advice))

    async def _is_enabled(self, adapter: str) -> bool:
        assert self.tiers is not None
        status = await self.tiers.status()
        return any(each.name == adapter and each.enabled for each in status.adapters)

    async def destroy(self, salt: str) -> None:
        """Make all KV of a salt unreadable."""
        assert self.tiers is not None
        await self.tiers.destroy_salt(salt)

    async def clean_up(self) -> None:
        """Destroy the salts that were used: their KV would only take room."""
        if self.tiers is None:
            return
        try:
            for salt in self._salts:
                await self.destroy(salt)
        except TierServerError as error:
            advice = "nothing reads it again, and it is evicted in time"
            self._tell(problem("clean-up", f"the proof's own KV stays: {error}", advice))
