"""How long one adapter below RAM may take, read from the environment of the tier."""

from collections.abc import Mapping
from dataclasses import dataclass

from foreword_guard.settings import positive


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """Deadlines of each L2 adapter; a request waits at most for both, and once.

    Attributes:
        lookup_s: longest wait for which chunks an adapter has.
        load_s: longest wait for chunks on their way into RAM.
        retry_s: seconds between probes of an adapter that failed.
    """

    lookup_s: float = 0.3
    load_s: float = 0.6
    retry_s: float = 1.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "AdapterSettings":
        """Read FOREWORD_ADAPTER_*; absent variables keep their defaults.

        Raises:
            SettingError: a value is not a positive number.
        """
        return cls(
            lookup_s=positive(environment, "FOREWORD_ADAPTER_LOOKUP_S", 0.3),
            load_s=positive(environment, "FOREWORD_ADAPTER_LOAD_S", 0.6),
            retry_s=positive(environment, "FOREWORD_ADAPTER_RETRY_S", 1.0),
        )
