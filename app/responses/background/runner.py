"""Makes the responses of the background, each with one end.

Nothing of a response counts that isn't written, and whatever is written says for which beginning:
so whoever is killed when, another beginning ends it, once.
"""

import math
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import anyio
import anyio.abc
import sqlalchemy as sa
import structlog

from app.accounts import JSONObject
from app.agents.mcp.errors import McpError, McpUnavailableError
from app.batches.retrying import pause_s
from app.errors import ConversationBusyError, GatewayError
from app.hot.departure import shielded
from app.problems import PROBLEMS, UNEXPECTED, error_body, problem_of
from app.responses.background.beginning import begun
from app.responses.background.following import Followers
from app.responses.background.records import (
    LAST_EVENTS,
    MOST_LOST,
    Claimed,
    chosen,
    due_at,
    failed_response,
    failure_code,
)
from app.responses.background.work import BackgroundWork
from app.responses.background.writing import Active, EventWriter
from app.responses.running import Asked, response_events
from app.services import Services
from app.settings import BackgroundSettings
from prompts import PromptError
from retrieval import RetrievalError

# How often it is asked which of those that are made here somebody has cancelled elsewhere.
_LOOK_S = 0.5
# What other gateways have left is found so late. What comes here wakes.
IDLE_LOOK_S = 5.0
_TROUBLE_S = 2.0
_BUSY_S = 1.0
_SWEEP_S = 600.0
_DAY_S = 86_400.0

# The HTTP status that goes with a code.
_STATUSES = {problem.code: problem.status for _, problem in reversed(PROBLEMS)}

Makes = Callable[[Asked], AsyncGenerator[JSONObject]]


class BackgroundRunner:
    """Makes them beside each other, up to a number of its settings.

    Args:
        owner: who makes responses here, the same after a restart.
        makes: gives the events of a response.
        now: seconds since 1970.
    """

    def __init__(
        self,
        services: Services,
        *,
        owner: str,
        makes: Makes = response_events,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._services = services
        self._store: BackgroundWork = services.background.work
        self._followers: Followers = services.followers
        self._settings: BackgroundSettings = services.settings.background
        self._owner = owner
        self._makes = makes
        self._now = now
        self._active: dict[str, Active] = {}
        self._tries: dict[str, int] = {}
        self._woken = anyio.Event()
        self._writer = EventWriter(self._store, self._followers, self._active)
        self._swept_at = 0.0
        self._due_at = math.inf
        self._log = structlog.get_logger()

    def wake(self) -> None:
        """There is something new to do."""
        self._woken.set()

    async def watch(self) -> None:
        """Work, for ever; what is under way at the end is given back."""
        self._active.clear()
        left: list[Claimed] = []
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(self._writer.keep_writing, trouble_s=_TROUBLE_S))
                try:
                    await self._work(tasks)
                finally:
                    left = [active.claimed for active in self._active.values()]
        finally:
            with shielded(None), anyio.move_on_after(_TROUBLE_S):
                await self._give_back(left)

    async def _work(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            self._woken = anyio.Event()
            try:
                await self._step(tasks)
            except sa.exc.SQLAlchemyError as error:
                self._log.warning("background_waits", problem=type(error).__name__)
                await anyio.sleep(_TROUBLE_S)
                continue
            with anyio.move_on_after(self._pause_s()):
                await self._woken.wait()

    def _pause_s(self) -> float:
        """How long nothing is to be done, unless something wakes."""
        look_s = _LOOK_S if self._active else IDLE_LOOK_S
        return min(look_s, max(self._due_at - self._now(), 0.0))

    async def _step(self, tasks: anyio.abc.TaskGroup) -> None:
        now = self._now()
        if now - self._swept_at >= _SWEEP_S:
            self._swept_at = now
            sweep = partial(self._store.drop_orphans, events_before=now - _DAY_S)
            await anyio.to_thread.run_sync(sweep)
        attempts = {each.claimed.id: each.claimed.attempt for each in self._active.values()}
        renew = partial(self._store.renew, attempts, self._owner, now)
        still = await anyio.to_thread.run_sync(renew)
        for gone in attempts.keys() - still:
            if gone in self._active:  # cancelled or deleted, unless it has just ended
                self._active[gone].scope.cancel()
        room = self._settings.concurrent - len(self._active)
        self._due_at = math.inf
        if room > 0:
            for claimed in await self._claimed(room, now):
                active = Active(claimed=claimed, next_event=claimed.next_event)
                self._active[claimed.id] = active
                tasks.start_soon(self._make, active)

    async def _claimed(self, room: int, now: float) -> list[Claimed]:
        here = [(a.claimed.tenant, a.claimed.conversation_id) for a in self._active.values()]
        without = list(self._active)

        def claim() -> tuple[list[Claimed], float]:
            waiting = self._store.waiting(self._owner, now, without=without)
            whose = chosen(waiting, here, now=now, room=room, per_tenant=self._settings.per_tenant)
            claims = [self._store.claim(each, self._owner, now) for each in whose]
            return [claimed for claimed in claims if claimed is not None], due_at(waiting, now)

        claimed, self._due_at = await anyio.to_thread.run_sync(claim)
        return claimed

    async def _make(self, active: Active) -> None:
        claimed = active.claimed
        try:
            with active.scope:
                await self._made(active)
        except sa.exc.SQLAlchemyError as error:
            self._log.warning("background_waits", problem=type(error).__name__)
            await anyio.sleep(_TROUBLE_S)
            await self._give_back([claimed])
        except Exception as error:  # noqa: BLE001 - the boundary of a background task
            self._log.exception("background_failed", response_id=claimed.id)
            await self._fail(active, error)
        # A shutdown leaves it among the active ones: `watch` gives it back.
        self._active.pop(claimed.id, None)
        self._followers.tell(claimed.id)
        self.wake()

    async def _made(self, active: Active) -> None:
        claimed, last = active.claimed, None
        if claimed.lost >= MOST_LOST:
            await self._end(active, "server_error", _lost(claimed.lost))
            return
        try:
            made = self._makes(begun(self._services, claimed, now=self._now))
            async with aclosing(made) as events:
                async for event in events:
                    if event["type"] == "error" and await self._later(
                        active, _STATUSES.get(event.get("code", ""))
                    ):
                        return
                    active.take(event)
                    last = event
        except (GatewayError, PromptError, RetrievalError) as error:
            is_busy = isinstance(error, ConversationBusyError)
            retry_after_s = _BUSY_S if is_busy else getattr(error, "retry_after_s", None)
            status = 503 if is_busy else problem_of(error).status
            hopeless = await self._is_hopeless(claimed, error)
            if hopeless or not await self._later(active, status, retry_after_s):
                await self._fail(active, error)
            return
        if last is not None and last["type"] in LAST_EVENTS:
            end = partial(self._store.end, claimed, last["response"], self._now())
            await anyio.to_thread.run_sync(end)
        await self._writer.write()
        self._tries.pop(claimed.id, None)

    async def _is_hopeless(self, claimed: Claimed, error: Exception) -> bool:
        """Whether it can't be begun until an operator sees to an MCP server or its pin. A run that
        has done something waits for that."""
        if not isinstance(error, McpError) or isinstance(error, McpUnavailableError):
            return False
        find = partial(self._services.agents.store.find, claimed.id)
        return await anyio.to_thread.run_sync(find) is None

    async def _later(
        self, active: Active, status: int | None, retry_after_s: float | None = None
    ) -> bool:
        """After an error of this HTTP status, perhaps to be made again: whether that is so."""
        claimed = active.claimed
        tries = self._tries[claimed.id] = self._tries.get(claimed.id, 0) + 1
        wait_s = None if status is None else pause_s(status, retry_after_s, tries)
        if wait_s is None or self._now() + wait_s > claimed.created_at + _DAY_S:
            return False
        back = partial(self._store.give_back, claimed, not_before=self._now() + wait_s)
        await anyio.to_thread.run_sync(back)
        return True

    async def _fail(self, active: Active, error: Exception) -> None:
        problem = problem_of(error)
        code = "server_error" if problem is UNEXPECTED else failure_code(problem.status)
        await self._end(active, code, error_body(error)["error"]["message"] or "")

    async def _end(self, active: Active, code: str, message: str) -> None:
        claimed, now = active.claimed, self._now()

        def end() -> None:
            stored = self._services.stored_responses.get(claimed.id, tenant=claimed.tenant)
            response = failed_response(stored.response, code, message)
            if self._store.end(claimed, response, now):
                active.take({"type": "response.failed", "response": response})

        await anyio.to_thread.run_sync(end)
        await self._writer.write()
        self._tries.pop(claimed.id, None)

    async def _give_back(self, left: list[Claimed]) -> None:
        for claimed in left:
            back = partial(self._store.give_back, claimed, not_before=0.0)
            try:
                await anyio.to_thread.run_sync(back)
            except sa.exc.SQLAlchemyError as error:
                self._log.warning("background_not_given_back", problem=type(error).__name__)


def _lost(times: int) -> str:
    return f"the gateway stopped {times} times while it made this response; ask for it again"
