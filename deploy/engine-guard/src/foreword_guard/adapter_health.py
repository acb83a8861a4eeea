"""Whether one L2 adapter is used: a switch for operators, and two breakers. Pure.

Reading (look-ups, loads) and storing fail apart: a full disk still serves what it has, and a disk
that can't be read may be no reason to stop storing. The reading breaker is closed again by a probe
that no request waits for (guarded_adapter.py); the storing one by letting one store through.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from foreword_guard.breaker import Breaker

# Loads in a row of which nothing could be read.
_UNREAD_LOADS = 3
# Reading costs a request its deadline when it fails again; a store that fails costs nobody.
_MAX_READ_DOUBLINGS = 6
_MAX_STORE_DOUBLINGS = 3


class AdapterState(StrEnum):
    """What the status route calls it."""

    OK = "ok"
    FAILING = "failing"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Set by an operator or by the gateway's break-even rule."""

    enabled: bool = True
    reason: str | None = None


class AdapterHealth:
    """Safe to use from any thread.

    Args:
        retry_s: shortest time that a breaker stays open; while it flaps it is doubled, up to 64
            times for reading and 8 times for storing.
        clock: monotonic seconds.
    """

    def __init__(self, *, retry_s: float, clock: Callable[[], float]) -> None:
        self._reading = Breaker(
            failures=_UNREAD_LOADS, retry_s=retry_s, clock=clock, max_doublings=_MAX_READ_DOUBLINGS
        )
        self._storing = Breaker(
            failures=1, retry_s=retry_s, clock=clock, max_doublings=_MAX_STORE_DOUBLINGS
        )
        self._switch = Switch()
        self._unsealed: str | None = None
        self._lock = threading.Lock()

    @property
    def switch(self) -> Switch:
        return self._switch

    def set_switch(self, switch: Switch) -> None:
        self._switch = switch

    def may_read(self) -> bool:
        """Whether a request may ask it now."""
        return self._switch.enabled and self._reading.closed

    def may_store(self) -> bool:
        """Whether to store now; after a pause one store is let through to see."""
        with self._lock:
            if not self._storing.closed and self._storing.may_close():
                self._storing.close()
            return self._storing.closed

    def wants_probe(self) -> bool:
        """Whether it is time to find out if it can be read again."""
        return self._switch.enabled and self._reading.may_close()

    def reading_failed(self, reason: str) -> bool:
        """It missed its deadline or broke: leave it now. True when this opened the breaker."""
        return self._reading.trip(reason)

    def read_nothing(self, reason: str) -> bool:
        """A load found nothing readable, which a few bad files explain as well."""
        return self._reading.failed(reason)

    def read_well(self) -> None:
        """A load served something in time."""
        self._reading.succeeded()

    def can_read_again(self) -> None:
        """A probe was answered in time; what kept it from storing may be over too."""
        self._reading.close()
        self._storing.close()

    def store_failed(self, reason: str) -> bool:
        """True when this opened the breaker."""
        return self._storing.failed(reason)

    def stored_well(self) -> None:
        self._storing.succeeded()

    def sealing_failed(self, reason: str) -> bool:
        """A salt's key couldn't be had, which stops no other salt's stores. True when it's news."""
        known, self._unsealed = self._unsealed, reason
        return known is None

    def sealed_well(self) -> None:
        self._unsealed = None

    @property
    def state(self) -> AdapterState:
        if not self._switch.enabled:
            return AdapterState.OFF
        if self._reading.closed and self._storing.closed and self._unsealed is None:
            return AdapterState.OK
        return AdapterState.FAILING

    @property
    def reason(self) -> str | None:
        """Why it isn't used, or not for everything."""
        if not self._switch.enabled:
            return self._switch.reason
        reading, storing = self._reading.status.reason, self._storing.status.reason
        unsealed = self._unsealed and f"not all is stored: {self._unsealed}"
        told = (reading, storing and f"nothing is stored: {storing}", unsealed)
        parts = [part for part in told if part]
        return "; ".join(parts) or None
