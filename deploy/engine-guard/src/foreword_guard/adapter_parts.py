"""What the parts of one guarded adapter share."""

import logging
from dataclasses import dataclass
from typing import Any

from foreword_guard.adapter_health import AdapterHealth
from foreword_guard.adapter_settings import AdapterSettings
from foreword_guard.counters import AdapterCounters

logger = logging.getLogger("foreword_guard")


@dataclass(slots=True, kw_only=True)
class AdapterParts:
    """One adapter.

    Attributes:
        inner: LMCache's own adapter, which does the work.
        name: as operators know it; empty until LMCache has said what it is.
        failures: that Redis' client has told of; it looks like "not found" to LMCache.
    """

    inner: Any
    settings: AdapterSettings
    health: AdapterHealth
    counters: AdapterCounters
    name: str = ""
    failures: int = 0

    @property
    def label(self) -> str:
        return self.name or "an L2 adapter"

    def reading_failed(self, reason: str) -> None:
        """It was late or broke: leave it alone until a probe is answered."""
        if self.health.reading_failed(reason):
            logger.warning("foreword_guard: %s is skipped: %s", self.label, reason)

    def read_nothing(self) -> None:
        """A load found nothing that can be read."""
        if self.health.read_nothing("its loads can't be read"):
            logger.warning("foreword_guard: %s is skipped: its loads can't be read", self.label)

    def storing_failed(self, reason: str) -> None:
        """Leave storing alone for a while."""
        if self.health.store_failed(reason):
            logger.warning("foreword_guard: nothing is stored in %s: %s", self.label, reason)

    def sealing_failed(self, reason: str) -> None:
        """Some salt has no key now: told, and the other salts' chunks are stored on."""
        if self.health.sealing_failed(reason):
            logger.warning("foreword_guard: a salt's chunks aren't stored: %s", reason)

    def can_read_again(self) -> None:
        self.health.can_read_again()
        logger.warning("foreword_guard: %s is used again", self.label)

    def client_failed(self, operation: str, reason: str) -> None:
        """What Redis' client says, from its threads; the operation is `store` or `read`."""
        self.failures += 1
        if operation == "store":
            self.storing_failed(reason)
        else:
            self.reading_failed(reason)
