"""Where the guard takes hold of SGLang's LMCache connector and cache.

Stands in for these lines of lmcache/integration/sglang/unified_lmcache_mp_connector.py (0.5.6):

    :67   __init__                        → refuses memory that isn't the engine's (memory.py)
    :304  RequestClientFactory.create     a client that lingers and replays what a dead server
                                          missed → one that drops it
    :437  _get_chunk_size                 a tier that isn't there ends the engine's start → the
                                          engine starts without, and registers when it comes
    :528  register_kv_cache               → the transfer context behind a gate (transfer.py)
    :573  _ensure_heartbeat_started       a heartbeat that only logs → the prober (prober.py)
    :626  submit_lookup                   → nothing is sent while the breaker is open
    :668  poll_lookup                     waits for ever → at most the deadline, then 0 tokens
    :810  submit_load                     → notes whose pages are being written (pages.py)
    :1224 close                           → stops the prober

and of sglang/srt/mem_cache/storage/lmcache/lmcache_unified_radix_cache.py (0.5.23):

    :177  prefetch_from_storage           → with one rank, nothing at all while the breaker is open
    :277  check_hicache_events            → also frees held pages whose loads have settled
    :322  has_pending_cache_operations    → also true while pages are held
    :522  _start_external_load            → pages of a late load are held back (pages.py)
    :848  _submit_store                   → with one rank, nothing at all while the breaker is open

With tensor or pipeline parallelism every rank must take the same branch, because the connector's
calls contain collectives. So only the look-up leader consults clock and breaker, and its verdict
travels in the collective that LMCache has in that place anyway. An engine of one rank has no such
care to take and skips the work before LMCache's calls too.
"""

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import zmq

from foreword_guard.connector import ConnectorGuard
from foreword_guard.errors import GuardError
from foreword_guard.gauges import TierGauges
from foreword_guard.memory import require_own_memory
from foreword_guard.pages import HeldPages
from foreword_guard.settings import GuardSettings
from foreword_guard.versions import refuse

# A scheduler that is busy with a long prefill polls rarely; only this much of the time between
# two polls is held against the tier.
_POLL_STEP_S = 0.1


def install(connector_class: type[Any], cache_class: type[Any], client_factory: Any) -> None:
    """Put the guard into LMCache's connector class and SGLang's cache class, in place."""
    settings = GuardSettings.from_environment(os.environ)
    connect = _dropping_connections(client_factory)
    client_factory.create = staticmethod(connect)
    _guard_lifetime(connector_class, settings, connect)
    _guard_lookups(connector_class)
    _guard_loads(connector_class, cache_class)
    _skip_while_open(cache_class)


def _dropping_connections(client_factory: Any) -> Callable[..., Any]:
    """`RequestClientFactory.create` whose connections drop their queue when they are closed."""
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
    original_chunk_size = connector_class._get_chunk_size

    @functools.wraps(original_init)
    def init(self: Any, **arguments: Any) -> None:
        self.foreword_guard = ConnectorGuard(self, settings, TierGauges())
        original_init(self, **arguments)
        try:
            require_own_memory(self)
        except GuardError as error:
            raise refuse(error) from error
        self.foreword_guard.start(functools.partial(connect, self.server_url))

    @functools.wraps(original_register)
    def register_kv_cache(self: Any) -> None:
        if self.foreword_guard.starts_without:
            self.foreword_guard.register_later()
            return
        original_register(self)
        self._transfer_ctx = self.foreword_guard.guard_transfer(self._transfer_ctx)

    @functools.wraps(original_chunk_size)
    def get_chunk_size(self: Any) -> int:
        size: int = self.foreword_guard.chunk_size(functools.partial(original_chunk_size, self))
        return size

    @functools.wraps(original_close)
    def close(self: Any) -> None:
        if self.foreword_guard.prober is not None:
            self.foreword_guard.prober.stop()
        original_close(self)

    def no_heartbeat(self: Any) -> None:
        """The prober pings."""

    connector_class.__init__ = init
    connector_class.register_kv_cache = register_kv_cache
    connector_class._get_chunk_size = get_chunk_size
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
        asked = operation.submission_future is not None
        found: int | None = original_poll(self, operation)
        if found is not None and asked:
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


def _skip_while_open(cache_class: Any) -> None:
    for name in ("prefetch_from_storage", "_submit_store"):
        setattr(cache_class, name, _skipping(getattr(cache_class, name)))


def _skipping(original: Any) -> Any:
    @functools.wraps(original)
    def unless_open(self: Any, *arguments: Any, **named: Any) -> Any:
        connector = self.lmcache_connector
        alone = connector.tp_size == connector.pp_size == 1
        if alone and not connector.foreword_guard.breaker.closed:
            return None
        return original(self, *arguments, **named)

    return unless_open
