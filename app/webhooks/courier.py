"""Tells endpoints what is due, at least once; a crash at any moment loses nothing."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import anyio
import httpx
import sqlalchemy as sa
import structlog

from app.errors import WebhookRefusedError
from app.version import VERSION
from app.webhooks.addresses import find_target
from app.webhooks.outbox import Delivery, Endpoint, Outbox
from app.webhooks.signing import signed_headers

# What other gateways have left is found so late. What comes here wakes, and so does what is due.
IDLE_LOOK_S = 5.0
_TROUBLE_S = 5.0


class Courier:
    """Delivers what the outbox holds.

    Args:
        now: seconds since 1970.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        allow_private: bool,
        timeout_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._outbox = outbox
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._now = now
        self._woken = anyio.Event()
        self._log = structlog.get_logger()

    async def watch(self) -> None:
        """Deliver, for ever."""
        with self._listening():
            while True:
                self._woken = anyio.Event()
                try:
                    next_at = await self.deliver_due()
                except sa.exc.SQLAlchemyError as error:
                    self._log.warning("webhooks_wait", problem=type(error).__name__)
                    await anyio.sleep(_TROUBLE_S)
                    continue
                with anyio.move_on_after(min(IDLE_LOOK_S, max(next_at - self._now(), 0.0))):
                    await self._woken.wait()

    async def deliver_due(self) -> float:
        """Try once what is due, and say when there is something due next (seconds since 1970)."""
        due, next_at = await anyio.to_thread.run_sync(self._outbox.take, self._now())
        async with anyio.create_task_group() as tasks:
            for delivery in due:
                tasks.start_soon(self._deliver, delivery)
        return next_at

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Meanwhile whatever is to be told wakes, from whichever thread."""
        loop = asyncio.get_running_loop()

        def told() -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(self._wake)

        before, self._outbox.changed = self._outbox.changed, told
        try:
            yield
        finally:
            self._outbox.changed = before

    def _wake(self) -> None:
        self._woken.set()

    async def _deliver(self, delivery: Delivery) -> None:
        endpoint = self._outbox.endpoints.get(delivery.endpoint)
        if endpoint is None:
            problem: str | None = "no endpoint of the settings is this one any more"
            final = True
        else:
            problem, final = await self._try(endpoint, delivery)
        if problem is not None:
            final = final or delivery.is_last
            self._log.warning(
                "webhook_given_up" if final else "webhook_failed",
                event_id=delivery.id,
                attempt=delivery.attempts,
                problem=problem,
            )
        if problem is None or final:
            await anyio.to_thread.run_sync(self._outbox.done, delivery)

    async def _try(self, endpoint: Endpoint, delivery: Delivery) -> tuple[str | None, bool]:
        """What went wrong, and whether to try again is useless."""
        headers = {
            "content-type": "application/json",
            "user-agent": f"foreword/{VERSION}",
            **signed_headers(endpoint.key, delivery.id, int(self._now()), delivery.body),
        }
        try:
            with anyio.fail_after(self._timeout_s):
                target = await find_target(endpoint.url, allow_private=self._allow_private)
                names = {} if target.name is None else {"sni_hostname": target.name}
                # No redirects: they would lead where nobody looked. What it answers isn't read.
                async with (
                    httpx.AsyncClient(trust_env=False, timeout=self._timeout_s) as client,
                    client.stream(
                        "POST",
                        target.url,
                        content=delivery.body,
                        headers=headers | {"host": target.host},
                        extensions=names,
                    ) as answer,
                ):
                    status = answer.status_code
        except WebhookRefusedError as error:
            return str(error), False
        except (httpx.HTTPError, OSError) as error:  # TimeoutError is one of the latter
            return type(error).__name__, False
        if 200 <= status < 300:
            return None, False
        return f"it answered {status}", status == httpx.codes.GONE
