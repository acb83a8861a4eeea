"""Watches the tier from a thread of its own: opens the breaker, registers again, closes it.

Stands in for the heartbeat of LMCache's connector (unified_lmcache_mp_connector.py:573, 0.5.6,
"TODO: support health check"), which only logs. Each round:

- closed: ask who the server is (and ping, so that it doesn't reap this engine). No answer opens
  the breaker, without any request having paid for it; so does another server, one that has dropped
  this engine, or one that answers and doesn't get on with its transfers: KV pages that it may be
  reading or writing are nobody else's, so a few of those would fill the pool. Then let go of
  abandoned look-ups.
- open, and the port refuses: the process is gone. Transfers in flight are failed (a dead process
  neither reads nor writes KV pages), and the port is tried again in a quarter of a second.
- open, and the server answers: register again if it doesn't know this engine, and close the
  breaker once nothing is in flight any more.

Probes use a connection of their own, closed after each with nothing lingering, so that none is
left to be replayed into the next server.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

import zmq

from foreword_guard.breaker import Breaker
from foreword_guard.identity import TierIdentity
from foreword_guard.lookups import AbandonedLookups
from foreword_guard.ports import refuses, tcp_address
from foreword_guard.settings import GuardSettings
from foreword_guard.transfer import GuardedTransfer

logger = logging.getLogger("foreword_guard")

_REFUSED_PAUSE_S = 0.25
_MAY_CLOSE_PAUSE_S = 1.0
# What LMCache's client raises for a server that is gone, silent, or speaks something else.
FAILURES = (TimeoutError, OSError, RuntimeError, ValueError, zmq.ZMQError)


class Prober:
    """One per connector.

    Args:
        url: the tier, `tcp://host:port`.
        connect: makes a request client for it.
        register: registers the engine again over a new connection.
        owes_registration: whether the engine wants to, though the server knows it.
        instance: the engine's present instance id.
        client: the engine's present request client.
        show: brings the metrics up to date.
        registered: counts a registration.
        patience_s: longest wait for a probe's answer; nobody waits with it.
    """

    def __init__(
        self,
        *,
        url: str,
        connect: Callable[[], Any],
        register: Callable[..., None],
        owes_registration: Callable[[], bool],
        instance: Callable[[], int],
        client: Callable[[], Any],
        breaker: Breaker,
        transfer: Callable[[], GuardedTransfer],
        lookups: AbandonedLookups,
        show: Callable[[], None],
        registered: Callable[[], None],
        settings: GuardSettings,
        patience_s: float,
    ) -> None:
        self._address = tcp_address(url)
        self._connect = connect
        self._register = register
        self._owes_registration = owes_registration
        self._instance = instance
        self._client = client
        self._breaker = breaker
        self._transfer = transfer
        self._lookups = lookups
        self._show = show
        self._registered = registered
        self._settings = settings
        self._patience_s = patience_s
        self._boot: str | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foreword-guard", daemon=True)

    def start(self) -> None:
        """Learn who the server is, then watch it; one that isn't there yet is waited for."""
        identity = self._probe() if self._breaker.closed else None
        self._boot = identity.boot if identity is not None else None
        if self._boot is None and self._breaker.closed:
            logger.warning(
                "foreword_guard: the tier wasn't started by foreword_guard.tier; "
                "a quick restart of it is only noticed when a call fails"
            )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for the round that it is in."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=self._patience_s + 1)

    def wake(self) -> None:
        """Something failed: look now instead of at the end of the pause."""
        self._wake.set()

    def _run(self) -> None:
        pause_s = self._settings.retry_s
        while not self._stop.is_set():
            self._wake.wait(pause_s)
            self._wake.clear()
            if self._stop.is_set():
                return
            pause_s = self._watch() if self._breaker.closed else self._recover()
            self._show()

    def _watch(self) -> float:
        """One round with the breaker closed; returns the pause before the next, seconds."""
        identity = self._probe()
        if identity is None:
            self._trip("the tier doesn't answer")
            return 0.0
        if identity.knows(self._instance(), registered_at=self._boot) is False:
            self._trip("the tier has restarted, or has dropped this engine")
            return 0.0
        waiting_s = self._transfer().waiting_s()
        if waiting_s is not None and waiting_s > self._patience_s:
            self._trip(f"a transfer has been waiting for {waiting_s:.1f} s")
            return _MAY_CLOSE_PAUSE_S
        self._client().ping(self._instance())
        self._lookups.release(self._client())
        return self._settings.retry_s if not len(self._lookups) else _REFUSED_PAUSE_S

    def _recover(self) -> float:
        """One round with the breaker open; returns the pause before the next, seconds."""
        if self._refused():
            self._lookups.clear()
            failed = self._transfer().abandon_outstanding()
            if failed:
                logger.warning("foreword_guard: failed %d transfers of the dead tier", failed)
            return _REFUSED_PAUSE_S
        identity = self._probe()
        if identity is None:
            return self._settings.retry_s
        known = identity.knows(self._instance(), registered_at=self._boot)
        if known and (self._transfer().in_flight or not self._breaker.may_close()):
            return min(self._settings.retry_s, _MAY_CLOSE_PAUSE_S)
        if (not known or self._owes_registration()) and not self._register_again(identity):
            return self._settings.retry_s
        self._breaker.close()
        logger.warning("foreword_guard: breaker closed, the tier is used again")
        return self._settings.retry_s

    def _register_again(self, identity: TierIdentity) -> bool:
        same_server = identity.boot is not None and identity.boot == self._boot
        if not same_server:
            self._lookups.clear()
            self._transfer().abandon_outstanding()
        try:
            self._register(same_server=same_server)
        except FAILURES as exc:
            logger.warning("foreword_guard: registering with the tier failed: %s", exc)
            return False
        self._boot = identity.boot
        self._registered()
        logger.warning("foreword_guard: registered with the tier again")
        return True

    def _probe(self) -> TierIdentity | None:
        client = self._connect()
        try:
            entries = client.get_experimental().result(timeout=self._patience_s)
            return TierIdentity.from_entries(entries)
        except FAILURES:
            return None
        finally:
            client.close()

    def _refused(self) -> bool:
        return self._address is not None and refuses(*self._address)

    def _trip(self, reason: str) -> None:
        if self._breaker.trip(reason):
            logger.warning("foreword_guard: breaker open, the tier is skipped: %s", reason)
