"""The guard's settings, read from the environment that the supervisor gives the engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from foreword_guard.errors import SettingError

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """How long to wait for the tier, and when to stop asking it.

    Attributes:
        deadline_s: longest that a request waits for a look-up, and the scheduler for one call.
        failures: failures in a row that open the breaker.
        retry_s: seconds between probes, and the shortest time that the breaker stays open.
        chunk_tokens: the tier's chunk size, with which the engine starts though the tier isn't
            there; None waits for it as LMCache does.
        start_wait_s: how long a starting engine waits for the tier before that.
    """

    deadline_s: float = 1.0
    failures: int = 1
    retry_s: float = 5.0
    chunk_tokens: int | None = None
    start_wait_s: float = 30.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "GuardSettings":
        """Read FOREWORD_TIER_*; absent variables keep their defaults.

        Raises:
            SettingError: a value is not a positive number.
        """
        return cls(
            deadline_s=positive(environment, "FOREWORD_TIER_DEADLINE_S", 1.0),
            failures=positive(environment, "FOREWORD_TIER_BREAKER_FAILURES", 1),
            retry_s=positive(environment, "FOREWORD_TIER_BREAKER_RETRY_S", 5.0),
            chunk_tokens=positive(environment, "FOREWORD_TIER_CHUNK_TOKENS", 0) or None,
            start_wait_s=positive(environment, "FOREWORD_TIER_START_WAIT_S", 30.0),
        )


def positive(environment: Mapping[str, str], variable: str, default: Number) -> Number:
    raw = environment.get(variable)
    if raw is None:
        return default
    try:
        value = type(default)(raw)
    except ValueError:
        value = type(default)(0)
    if not 0 < value < 1e6:
        kind = "a positive whole number" if isinstance(default, int) else "a positive number"
        raise SettingError(variable, raw, kind)
    return value
