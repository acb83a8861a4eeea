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
    """

    deadline_s: float = 1.0
    failures: int = 1
    retry_s: float = 5.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "GuardSettings":
        """Read FOREWORD_TIER_*; absent variables keep their defaults.

        Raises:
            SettingError: a value is not a positive number.
        """
        return cls(
            deadline_s=_positive(environment, "FOREWORD_TIER_DEADLINE_S", 1.0),
            failures=_positive(environment, "FOREWORD_TIER_BREAKER_FAILURES", 1),
            retry_s=_positive(environment, "FOREWORD_TIER_BREAKER_RETRY_S", 5.0),
        )


def _positive(environment: Mapping[str, str], variable: str, default: Number) -> Number:
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
