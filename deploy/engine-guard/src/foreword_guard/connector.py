"""Deadline, breaker and re-registration for SGLang's LMCache connector.

Stands in for these lines of lmcache/integration/sglang/unified_lmcache_mp_connector.py (0.5.6):

    :314  RequestClientFactory.create     a client that lingers and replays what a dead server
                                          missed → one that drops it
    :508  register_kv_cache               → the transfer context behind a gate (transfer.py)
    :571  _ensure_heartbeat_started       a heartbeat that only logs → the prober (prober.py)
    :632  submit_lookup                   → nothing is sent while the breaker is open
    :675  poll_lookup                     waits for ever → at most the deadline, then 0 tokens
    :841  submit_load                     → notes whose pages are being written (pages.py)
    :1240 close                           → stops the prober

and of sglang/srt/mem_cache/storage/lmcache/lmcache_unified_radix_cache.py (0.5.23):

    :266  check_hicache_events            → also frees held pages whose loads have settled
    :306  has_pending_cache_operations    → also true while pages are held
    :542  _start_external_load            → pages of a late load are held back (pages.py)

With tensor or pipeline parallelism every rank must take the same branch, because the connector's
calls contain collectives. So only the look-up leader consults clock and breaker, and its verdict
travels in the collective that LMCache has in that place anyway.
"""

import functools
import logging
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from foreword_guard.breaker import Breaker
from foreword_guard.gauges import TierGauges
from foreword_guard.lookups import AbandonedLookups
from foreword_guard.pages import HeldPages
from foreword_guard.prober import Prober
from foreword_guard.settings import GuardSettings
from foreword_guard.transfer import GuardedClient, GuardedTransfer

logger = logging.getLogger("foreword_guard")

# A scheduler that is busy with a long prefill polls rarely; only this much of the time between
# two polls is held against the tier.
_POLL_STEP_S = 0.1


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
        self.prober: Prober | None = None

    def start(self, connect: Callable[[], Any]) -> None:
        """Guard the connector's client and watch the tier; the connector has registered."""
        connector = self.connector
        connector._req_client = GuardedClient(connector._req_client, self.breaker)
        self.prober = Prober(
            url=connector.server_url,
            connect=connect,
            register=functools.partial(self.register_again, connect),
            instance=lambda: connector.instance_id,
            client=lambda: connector._req_client,
            breaker=self.breaker,
            transfer=self.guarded_transfer,
            lookups=self.lookups,
            pages=self.pages,
            gauges=self.gauges,
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
                context, self.breaker, self.failed, self.settings.deadline_s
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
        if self.prober is not None and not self.breaker.closed:
            self.prober.wake()

    def register_again(self, connect: Callable[[], Any]) -> None:
        """Register under a new instance id over a new connection; called by the prober.

        The old connection is closed with what is queued in it. The old registration, if the
        server still has it, is reaped by the server, which drops what was reserved under it.
        """
        connector = self.connector
        old_client = connector._req_client.inner

        def register() -> None:
            connector._req_client = GuardedClient(connect(), self.breaker)
            connector.instance_id = uuid.uuid4().int & ((1 << 63) - 1)
            connector._registered = False
            try:
                connector.register_kv_cache()
            finally:
                connector._transfer_ctx = self.transfer

        self.guarded_transfer().replace(register)
        old_client.close()


def install(connector_class: type[Any], cache_class: type[Any], client_factory: Any) -> None:
    """Put the guard into LMCache's connector class and SGLang's cache class, in place."""
    settings = GuardSettings.from_environment(os.environ)
    connect = _dropping_connections(client_factory)
    client_factory.create = staticmethod(connect)
    _guard_lifetime(connector_class, settings, connect)
    _guard_lookups(connector_class)
    _guard_loads(connector_class, cache_class)


def _dropping_connections(client_factory: Any) -> Callable[..., Any]:
    """`RequestClientFactory.create` whose connections drop their queue when they are closed."""
    import zmq

    create = client_factory.create
    context = zmq.Context()
    context.linger = 0

    def connect(server_url: str, *, context: Any = context) -> Any:
        return create(server_url, context=context)

    return connect


def _guard_lifetime(
    connector_class: Any, settings: GuardSettings, connect: Callable[..., Any]
) -> None:
    original_init = connector_class.__init__
    original_register = connector_class.register_kv_cache
    original_close = connector_class.close

    @functools.wraps(original_init)
    def init(self: Any, **arguments: Any) -> None:
        self.foreword_guard = ConnectorGuard(self, settings, TierGauges())
        original_init(self, **arguments)
        self.foreword_guard.start(functools.partial(connect, self.server_url))

    @functools.wraps(original_register)
    def register_kv_cache(self: Any) -> None:
        original_register(self)
        self._transfer_ctx = self.foreword_guard.guard_transfer(self._transfer_ctx)

    @functools.wraps(original_close)
    def close(self: Any) -> None:
        if self.foreword_guard.prober is not None:
            self.foreword_guard.prober.stop()
        original_close(self)

    def no_heartbeat(self: Any) -> None:
        """The prober pings."""

    connector_class.__init__ = init
    connector_class.register_kv_cache = register_kv_cache
    connector_class.close = close
    connector_class._ensure_heartbeat_started = no_heartbeat


def _guard_lookups(connector_class: Any) -> None:
    from lmcache.integration.sglang.lmcache_mp_metadata import LMCacheLookupOperation

    original_submit = connector_class.submit_lookup
    original_poll = connector_class.poll_lookup

    @functools.wraps(original_submit)
    def submit_lookup(
        self: Any, request_id: str, token_ids: list[int], *, local_hit_tokens: int, cache_salt: str
    ) -> Any:
        guard: ConnectorGuard = self.foreword_guard
        guard.lookups.forget(request_id)
        if guard.breaker.closed or not self.is_lookup_leader:
            return original_submit(
                self,
                request_id,
                token_ids,
                local_hit_tokens=local_hit_tokens,
                cache_salt=cache_salt,
            )
        operation = LMCacheLookupOperation(request_id, [], local_hit_tokens, cache_salt)
        if len(token_ids) >= self.chunk_size:
            self._sync_success(False)
        operation.total_hit_tokens = 0
        return operation

    @functools.wraps(original_poll)
    def poll_lookup(self: Any, operation: Any) -> int | None:
        guard: ConnectorGuard = self.foreword_guard
        if operation.total_hit_tokens is None and self.is_lookup_leader:
            give_up_when_late(guard, operation)
        found: int | None = original_poll(self, operation)
        if found and self.is_lookup_leader:
            guard.breaker.succeeded()
        return found

    connector_class.submit_lookup = submit_lookup
    connector_class.poll_lookup = poll_lookup


def give_up_when_late(guard: ConnectorGuard, operation: Any) -> None:
    """Past the deadline, or with the breaker open, make the look-up's answer "nothing found".

    LMCache's own poll answers 0 tokens, to every rank, for a look-up without a future.
    """
    now_s = time.monotonic()
    waited_s = getattr(operation, "foreword_waited_s", 0.0)
    step_s = min(now_s - getattr(operation, "foreword_polled_s", now_s), _POLL_STEP_S)
    operation.foreword_polled_s = now_s
    operation.foreword_waited_s = waited_s + step_s
    late = operation.foreword_waited_s > guard.settings.deadline_s
    if not late and guard.breaker.closed:
        return
    if operation.submission_future is not None:
        connector = guard.connector
        end = len(operation.token_ids) // connector.chunk_size * connector.chunk_size
        key = connector._create_key(operation, start=0, end=end, worker_id=None)
        guard.lookups.add(operation.request_id, key, connector.kv_world_size)
    operation.submission_future = None
    operation.completion_future = None
    if late:
        guard.failed(f"a look-up took more than {guard.settings.deadline_s:g} s")


def _guard_loads(connector_class: Any, cache_class: Any) -> None:
    original_submit = connector_class.submit_load
    original_start = cache_class._start_external_load
    original_events = cache_class.check_hicache_events
    original_pending = cache_class.has_pending_cache_operations

    @functools.wraps(original_submit)
    def submit_load(self: Any, *arguments: Any, **named: Any) -> Any:
        operation = original_submit(self, *arguments, **named)
        self.foreword_guard.pages.loading(operation)
        return operation

    @functools.wraps(original_start)
    def start_external_load(self: Any, flow: Any, req: Any) -> Any:
        pages: HeldPages = self.lmcache_connector.foreword_guard.pages
        with pages.holding_back(self.token_to_kv_pool_allocator):
            return original_start(self, flow, req)

    @functools.wraps(original_events)
    def check_hicache_events(self: Any) -> None:
        original_events(self)
        pages: HeldPages = self.lmcache_connector.foreword_guard.pages
        if pages:
            pages.release(self.token_to_kv_pool_allocator)

    @functools.wraps(original_pending)
    def has_pending_cache_operations(self: Any) -> bool:
        return bool(original_pending(self) or self.lmcache_connector.foreword_guard.pages)

    connector_class.submit_load = submit_load
    cache_class._start_external_load = start_external_load
    cache_class.check_hicache_events = check_hicache_events
    cache_class.has_pending_cache_operations = has_pending_cache_operations
