"""Faults on order: what goes wrong, how often, and for which path. Pure."""

from dataclasses import dataclass, replace
from enum import StrEnum


class FaultKind(StrEnum):
    """What a fault does to a request (or, the last four, to the engine)."""

    DELAY = "delay"
    """Answers after `seconds`."""
    ERROR = "error"
    """Answers with `status` and an error body."""
    HANG = "hang"
    """Takes the request and never answers."""
    DROP = "drop"
    """Closes the connection: before the head, or after `after_chunks` chunks of a stream."""
    SLOW_TIER = "slow_tier"
    """Every look-up in the tier takes `seconds` longer."""
    TIER_DOWN = "tier_down"
    """The tier is neither asked nor written."""
    LOSE_EVENTS = "lose_events"
    """The next `times` batches of KV events are numbered but never sent."""
    IGNORE_SALTS = "ignore_salts"
    """Every request is served from one cache, whatever its salt."""


ENGINE_FAULTS = frozenset(
    {
        FaultKind.SLOW_TIER,
        FaultKind.TIER_DOWN,
        FaultKind.LOSE_EVENTS,
        FaultKind.IGNORE_SALTS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        path: the requests it meets; None: `/v1/chat/completions`, `/v1/completions`, `/generate`.
        times: how often; None: until it is taken back.
    """

    kind: FaultKind
    path: str | None = None
    times: int | None = 1
    seconds: float = 0.0
    status: int = 500
    after_chunks: int = 0

    def meets(self, path: str) -> bool:
        if self.path is None:
            return path in {"/v1/chat/completions", "/v1/completions", "/generate"}
        return path == self.path


class FaultPlan:
    """The faults that are still due, oldest first."""

    def __init__(self) -> None:
        self.due: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self.due.append(fault)

    def take(self, path: str) -> Fault | None:
        """The fault that meets a request on `path`, counted as used."""
        for index, fault in enumerate(self.due):
            if fault.kind in ENGINE_FAULTS or not fault.meets(path):
                continue
            if fault.times is not None:
                self.due[index : index + 1] = (
                    [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
                )
            return fault
        return None

    def tier_delay_s(self) -> float:
        return sum(fault.seconds for fault in self.due if fault.kind is FaultKind.SLOW_TIER)

    def tier_down(self) -> bool:
        return any(fault.kind is FaultKind.TIER_DOWN for fault in self.due)

    def ignores_salts(self) -> bool:
        return any(fault.kind is FaultKind.IGNORE_SALTS for fault in self.due)

    def clear(self) -> None:
        self.due.clear()
