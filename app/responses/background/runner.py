"""Makes the responses of the background, each with one end.

Nothing of a response counts that isn't written, and whatever is written says for which beginning:
so whoever is killed when, another beginning ends it, once.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.abc
import sqlalchemy as sa
import structlog

from app.accounts import JSONObject
from app.batches.retrying import pause_s
from app.callers import Caller, Priority
from app.errors import ConversationBusyError, GatewayError
from app.hot.departure import shielded
from app.pipeline import open_account
from app.problems import PROBLEMS, UNEXPECTED, error_body, problem_of
from app.responses.background.following import Followers
from app.responses.background.records import (
    LAST_EVENTS,
    MOST_LOST,
    Claimed,
    chosen,
    failed_response,
    failure_code,
    numbered,
)
from app.responses.background.store import BackgroundStore
from app.responses.bodies import ResponsesRequest
from app.responses.running import Asked, response_events
from app.services import Services
from app.settings import BackgroundSettings
from prompts import PromptError
from retrieval import RetrievalError

_LOOK_S = 0.5
_FLUSH_S = 0.1
_TROUBLE_S = 2.0
_BUSY_S = 1.0
_SWEEP_S = 600.0
_DAY_S = 86_400.0

# The HTTP status that goes with a code.
_STATUSES = {problem.code: problem.status for _, problem in reversed(PROBLEMS)}

Makes = Callable[[Asked], AsyncGenerator[JSONObject]]


@dataclass(slots=True, kw_only=True)
class _Active:
    """One that is made here; `events` are those that aren't written yet."""

    claimed: Claimed
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    next_event: int
    events: list[JSONObject] = field(default_factory=list)


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
        self._store: BackgroundStore = services.background
        self._followers: Followers = services.followers
        self._settings: BackgroundSettings = services.settings.background
        self._owner = owner
        self._makes = makes
        self._now = now
        self._active: dict[str, _Active] = {}
        self._tries: dict[str, int] = {}
        self._woken = anyio.Event()
        self._writing = anyio.Lock()
        self._swept_at = 0.0
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
                tasks.start_soon(self._keep_writing)
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
            with anyio.move_on_after(_LOOK_S):
                await self._woken.wait()

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
        if room > 0:
            for claimed in await self._claimed(room, now):
                active = _Active(claimed=claimed, next_event=claimed.next_event)
                self._active[claimed.id] = active
                tasks.start_soon(self._make, active)

    async def _claimed(self, room: int, now: float) -> list[Claimed]:
        here = [(a.claimed.tenant, a.claimed.conversation_id) for a in self._active.values()]
        without = list(self._active)

        def claim() -> list[Claimed]:
            waiting = self._store.waiting(self._owner, now, without=without)
            whose = chosen(waiting, here, now=now, room=room, per_tenant=self._settings.per_tenant)
            claims = [self._store.claim(each, self._owner, now) for each in whose]
            return [claimed for claimed in claims if claimed is not None]

        return await anyio.to_thread.run_sync(claim)

    async def _make(self, active: _Active) -> None:
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

    async def _made(self, active: _Active) -> None:
        claimed, last = active.claimed, None
        if claimed.lost >= MOST_LOST:
            await self._end(active, "server_error", _lost(claimed.lost))
            return
        try:
            async with aclosing(self._makes(self._asked(claimed))) as events:
                async for event in events:
                    if event["type"] == "error" and await self._later(
                        active, _STATUSES.get(event.get("code", ""))
                    ):
                        return
                    self._take(active, event)
                    last = event
        except (GatewayError, PromptError, RetrievalError) as error:
            is_busy = isinstance(error, ConversationBusyError)
            retry_after_s = _BUSY_S if is_busy else getattr(error, "retry_after_s", None)
            status = 503 if is_busy else problem_of(error).status
            if not await self._later(active, status, retry_after_s):
                await self._fail(active, error)
            return
        if last is not None and last["type"] in LAST_EVENTS:
            end = partial(self._store.end, claimed, last["response"], self._now())
            await anyio.to_thread.run_sync(end)
        await self._write()
        self._tries.pop(claimed.id, None)

    def _asked(self, claimed: Claimed) -> Asked:
        services = self._services
        account = open_account(services, tenant=claimed.tenant, prefix="resp_")
        if claimed.attempt == 1:
            account.request_id = claimed.id
        else:
            # An engine may still know the one before, and so does the ledger.
            account.request_id = f"{claimed.id}.{claimed.attempt}"
        return Asked(
            services=services,
            body=ResponsesRequest.model_validate_json(claimed.body),
            caller=Caller(
                tenant=claimed.tenant,
                ceiling=Priority.BACKGROUND,
                limits=services.keys.limits_of(claimed.tenant),
            ),
            account=account,
            response_id=claimed.id,
            created_at=int(claimed.created_at),
            received_bytes=len(claimed.body),
            attempt=claimed.attempt,
            write=lambda connection, stored: self._store.finish(
                connection, stored, attempt=claimed.attempt, now=self._now()
            ),
        )

    def _take(self, active: _Active, event: JSONObject) -> None:
        if not active.claimed.streams:
            return
        without = ("response.created",) if active.claimed.attempt == 1 else ()
        events = numbered([event], active.next_event, without=without)
        active.events += events
        active.next_event += len(events)

    async def _later(
        self, active: _Active, status: int | None, retry_after_s: float | None = None
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

    async def _fail(self, active: _Active, error: Exception) -> None:
        problem = problem_of(error)
        code = "server_error" if problem is UNEXPECTED else failure_code(problem.status)
        await self._end(active, code, error_body(error)["error"]["message"] or "")

    async def _end(self, active: _Active, code: str, message: str) -> None:
        claimed, now = active.claimed, self._now()

        def end() -> None:
            stored = self._services.stored_responses.get(claimed.id, tenant=claimed.tenant)
            response = failed_response(stored.response, code, message)
            if self._store.end(claimed, response, now):
                self._take(active, {"type": "response.failed", "response": response})

        await anyio.to_thread.run_sync(end)
        await self._write()
        self._tries.pop(claimed.id, None)

    async def _keep_writing(self) -> None:
        while True:
            await anyio.sleep(_FLUSH_S)
            try:
                await self._write()
            except sa.exc.SQLAlchemyError as error:
                self._log.warning("background_waits", problem=type(error).__name__)
                await anyio.sleep(_TROUBLE_S)

    async def _write(self) -> None:
        """Keep all events that have come, and tell of them."""
        async with self._writing:
            actives = [active for active in self._active.values() if active.events]
            if not actives:
                return
            more = {(a.claimed.id, a.claimed.attempt): list(a.events) for a in actives}
            await anyio.to_thread.run_sync(self._store.add_events, more)
            for active in actives:
                del active.events[: len(more[active.claimed.id, active.claimed.attempt])]
                self._followers.tell(active.claimed.id)

    async def _give_back(self, left: list[Claimed]) -> None:
        for claimed in left:
            back = partial(self._store.give_back, claimed, not_before=0.0)
            try:
                await anyio.to_thread.run_sync(back)
            except sa.exc.SQLAlchemyError as error:
                self._log.warning("background_not_given_back", problem=type(error).__name__)


def _lost(times: int) -> str:
    return f"the gateway stopped {times} times while it made this response; ask for it again"
