"""Goes on with runs that were left behind, and says of those that are under way that they live."""

import math
import time
from contextlib import aclosing
from functools import partial

import anyio
import anyio.abc
import sqlalchemy as sa
import structlog

from app.agents.agents import Agents
from app.agents.starting import agent_events
from app.callers import Caller
from app.errors import GatewayError
from app.pipeline import open_account
from app.responses.bodies import ResponsesRequest
from app.responses.running import Asked
from app.services import Services
from prompts import PromptError
from retrieval import RetrievalError

_LOOK_S = 1.0
# What other gateways have left is found so late after its lease. What comes here wakes.
IDLE_LOOK_S = 5.0
# So often within a lease it is said that a run is worked on.
_WORDS = 4
_SWEEP_S = 60.0
_DAY_S = 86_400.0
_MOST_AT_ONCE = 8


class AgentWatch:
    """One for each gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._agents: Agents = services.agents
        self._agents.changed = self.wake
        self._under_way: set[str] = set()
        self._woken = anyio.Event()
        self._look_s = min(_LOOK_S, services.settings.agents.lease_s / _WORDS)
        self._log = structlog.get_logger()

    def wake(self) -> None:
        """There may be something to pick up, or to keep alive."""
        self._woken.set()

    async def watch(self) -> None:
        """For ever."""
        self._under_way.clear()
        swept_at = -_SWEEP_S
        async with anyio.create_task_group() as tasks:
            while True:
                self._woken = anyio.Event()
                pause_s = self._look_s
                try:
                    await self._look(tasks)
                    if time.monotonic() - swept_at >= _SWEEP_S:
                        swept_at = time.monotonic()
                        await self._sweep()
                    pause_s = await self._pause_s()
                except sa.exc.SQLAlchemyError as error:
                    self._log.warning("agents_wait", problem=type(error).__name__)
                with anyio.move_on_after(pause_s):
                    await self._woken.wait()

    async def _pause_s(self) -> float:
        """How long nothing is to be done, unless something wakes."""
        if self._agents.live or self._under_way:
            return self._look_s
        free_s = await anyio.to_thread.run_sync(self._agents.store.next_free)
        return min(IDLE_LOOK_S, math.inf if free_s is None else free_s)

    async def _look(self, tasks: anyio.abc.TaskGroup) -> None:
        agents, live = self._agents, list(self._agents.live)
        if live:
            keep_alive = partial(agents.store.keep_alive, live)
            for run_id in await anyio.to_thread.run_sync(keep_alive):
                agents.stop(run_id)
        for run_id in await anyio.to_thread.run_sync(agents.store.given_up):
            stopped = await anyio.to_thread.run_sync(agents.store.abandon, run_id)
            self._services.metrics.agents.stopped(stopped)
        room = _MOST_AT_ONCE - len(self._under_way)
        if room <= 0:
            return
        known = {*self._under_way, *agents.live}
        left = await anyio.to_thread.run_sync(partial(agents.store.left_behind, but=known))
        for run_id in left[:room]:
            self._under_way.add(run_id)
            tasks.start_soon(self._go_on, run_id)

    async def _go_on(self, run_id: str) -> None:
        try:
            asked = await self._asked(run_id)
            if asked is None:
                return
            async with aclosing(agent_events(asked)) as events:
                async for _ in events:
                    pass
        except (GatewayError, PromptError, RetrievalError) as error:
            self._log.warning("run_not_resumed", run_id=run_id, problem=str(error))
            await anyio.sleep(_LOOK_S)
        except sa.exc.SQLAlchemyError as error:
            self._log.warning("agents_wait", problem=type(error).__name__)
            await anyio.sleep(_LOOK_S)
        except Exception:  # noqa: BLE001 - the boundary of a background task
            self._log.exception("run_failed", run_id=run_id)
            await anyio.sleep(_LOOK_S)
        finally:
            self._under_way.discard(run_id)
            self.wake()

    async def _asked(self, run_id: str) -> Asked | None:
        services = self._services
        record = await anyio.to_thread.run_sync(self._agents.store.find, run_id)
        if record is None:
            return None
        limits = services.keys.limits_of(record.tenant)
        return Asked(
            services=services,
            body=ResponsesRequest.model_validate(record.request),
            caller=Caller(tenant=record.tenant, limits=limits),
            account=open_account(services, tenant=record.tenant, prefix="resp_"),
            response_id=run_id,
            created_at=int(record.created_at),
            received_bytes=0,
            attempt=2,
        )

    async def _sweep(self) -> None:
        days = self._services.settings.conversations.response_days
        now = time.time()
        # What failed or was cancelled can be looked at for a day.
        before = now - _DAY_S if days is None else now - min(days, 1.0) * _DAY_S
        await anyio.to_thread.run_sync(partial(self._agents.store.sweep, before=before))
