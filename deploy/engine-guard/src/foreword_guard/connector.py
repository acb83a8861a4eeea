"""What the guard keeps for one connector: breaker, gate, prober, abandoned look-ups, held pages.

The hooks that bring it in are in hooks.py.
"""

import contextlib
import functools
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from foreword_guard.breaker import Breaker
from foreword_guard.errors import ForeignMemoryError
from foreword_guard.gauges import TierGauges
from foreword_guard.lookups import AbandonedLookups
from foreword_guard.memory import require_own_memory
from foreword_guard.pages import HeldPages
from foreword_guard.ports import opens_within
from foreword_guard.prober import FAILURES, Prober
from foreword_guard.settings import GuardSettings
from foreword_guard.transfer import AbsentTransfer, GuardedClient, GuardedTransfer

logger = logging.getLogger("foreword_guard")


class ConnectorGuard:
    """What the guard keeps for one connector, as its attribute `foreword_guard`."""

    def __init__(self, connector: Any, settings: GuardSettings, gauges: TierGauges) -> None:
        self.connector = connector
        self.settings = settings
        self.breaker = Breaker(
            failures=settings.failures, retry_s=settings.retry_s, clock=time.monotonic
        )
        self.lookups = AbandonedLookups()
        self.pages = HeldPages()
        self.gauges = gauges
        self.transfer: GuardedTransfer | None = None
        self.owes_registration = False
        self.starts_without = False
        self._retired: list[Any] = []
        self.prober: Prober | None = None

    def chunk_size(self, ask: Callable[[], int]) -> int:
        """The tier's chunk size; the configured one when the tier isn't there.

        Then the engine starts with the breaker open, and the prober registers it later.
        """
        known = self.settings.chunk_tokens
        if known is None:
            return ask()
        if opens_within(self.connector.server_url, self.settings.start_wait_s):
            with contextlib.suppress(*FAILURES):
                return ask()
        self.starts_without = True
        self.breaker.trip("the tier wasn't there when the engine started")
        logger.warning("foreword_guard: the tier isn't there; the engine starts without it")
        return known

    def register_later(self) -> None:
        """Put the gate, which is shut, before a context that isn't there yet."""
        self.connector._transfer_ctx = self.guard_transfer(AbsentTransfer())

    def start(self, connect: Callable[[], Any]) -> None:
        """Guard the connector's client and watch the tier; the connector has registered."""
        connector = self.connector
        connector._req_client = GuardedClient(connector._req_client, self.breaker)
        self.prober = Prober(
            url=connector.server_url,
            connect=connect,
            register=functools.partial(self.register_again, connect),
            owes_registration=lambda: self.owes_registration,
            instance=lambda: connector.instance_id,
            client=lambda: connector._req_client,
            breaker=self.breaker,
            transfer=self.guarded_transfer,
            lookups=self.lookups,
            show=self.show,
            registered=self.gauges.registered,
            settings=self.settings,
            patience_s=max(connector._mq_timeout, self.settings.deadline_s),
        )
        self.prober.start()

    def guarded_transfer(self) -> GuardedTransfer:
        """The gate before the transfer context, which exists once the connector has registered."""
        assert self.transfer is not None
        return self.transfer

    def guard_transfer(self, context: Any) -> GuardedTransfer:
        """Put the gate before a freshly registered context; the same gate each time."""
        self.bound_calls(context)
        if self.transfer is None:
            self.transfer = GuardedTransfer(
                context, self.breaker, self.transfer_failed, self.settings.deadline_s
            )
        self.transfer.inner = context
        return self.transfer

    def bound_calls(self, context: Any) -> None:
        """Let the scheduler wait for one call of the CPU path no longer than the deadline."""
        copying = getattr(context, "_engine_driven_context", None)
        if copying is not None:
            copying.mq_timeout = min(copying.mq_timeout, self.settings.deadline_s)

    def failed(self, reason: str) -> None:
        """Count a failure; the prober looks at once when it opened the breaker."""
        if self.breaker.failed(reason):
            logger.warning("foreword_guard: breaker open, the tier is skipped: %s", reason)
        self.show()
        if self.prober is not None and not self.breaker.closed:
            self.prober.wake()

    def show(self) -> None:
        """Bring the metrics up to date."""
        self.gauges.show(
            is_open=not self.breaker.closed,
            failures_total=self.breaker.status.failures_total,
            held_loads=len(self.pages),
        )

    def transfer_failed(self, reason: str) -> None:
        """Count a failed transfer; the tier may still hold what was reserved for it.

        Such chunks can't be stored for ten minutes (LMCache's write lock), so this engine
        registers anew, and the tier drops them with the old registration. Where the tier moves
        the data itself nothing is reserved, and its late answer is still wanted (pages.py).
        """
        if not self.guarded_transfer().in_flight:
            self.owes_registration = True
        self.failed(reason)

    def register_again(self, connect: Callable[[], Any], *, same_server: bool) -> None:
        """Register under a new instance id over a new connection; called by the prober.

        The old connection is closed with what is queued in it; as long as an answer is expected
        on it, without which KV pages are held back, it stays.
        """
        connector = self.connector
        client = connect()
        try:
            self._require_chunk_size(client)
        except BaseException:
            client.close()
            raise
        self.starts_without = False

        def register() -> None:
            self._retired.append(connector._req_client.inner)
            connector._req_client = GuardedClient(client, self.breaker)
            connector.instance_id = uuid.uuid4().int & ((1 << 63) - 1)
            connector._registered = False
            try:
                connector.register_kv_cache()
                self._require_own_memory()
            finally:
                connector._transfer_ctx = self.transfer
                self.close_retired()

        patience_s = connector._mq_timeout if same_server else None
        self.guarded_transfer().replace(register, unregister_within_s=patience_s)
        self.owes_registration = False

    def _require_chunk_size(self, client: Any) -> None:
        """Raises RuntimeError: another size than the engine was started with."""
        found = int(client.get_chunk_size().result(timeout=self.connector._mq_timeout))
        if found != self.connector.chunk_size:
            raise RuntimeError(
                f"the tier has chunks of {found} tokens and the engine was started for "
                f"{self.connector.chunk_size}: restart one of them"
            )

    def _require_own_memory(self) -> None:
        """Raises RuntimeError: the tier would load beside the engine's pool (memory.py)."""
        try:
            require_own_memory(self.connector)
        except ForeignMemoryError as error:
            raise RuntimeError(str(error)) from error

    def close_retired(self) -> None:
        """Close connections that were replaced, once nothing is expected on them."""
        if self.guarded_transfer().in_flight:
            return
        while self._retired:
            self._retired.pop().close()
