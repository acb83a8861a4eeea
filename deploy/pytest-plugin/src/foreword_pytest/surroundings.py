"""What differs from one fresh process to the next, and must not show in a prompt."""

from dataclasses import asdict, dataclass
from enum import Enum


class Clock(Enum):
    """How far the clock is moved between fresh processes."""

    MONTHS = "months"
    HOURS = "hours"
    REAL = "real"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """One fresh process.

    `locales` are tried in turn, since not all are installed. `instant_s` (Unix time) is when its
    clock starts, None for the real one. `reverse_listings` turns directory listings round.
    """

    hash_seed: int
    timezone: str
    locales: tuple[str, ...]
    instant_s: float | None
    reverse_listings: bool

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        clock = "" if self.instant_s is None else ", clock moved"
        listings = ", listings reversed" if self.reverse_listings else ""
        return f"PYTHONHASHSEED={self.hash_seed}, TZ={self.timezone}{clock}{listings}"

    def as_json(self) -> dict[str, object]:
        """Its fields, for the process itself."""
        return asdict(self)


# Monday, 5 January 2026, 09:00:00 UTC; later that day; Saturday, 23 October 2027, 22:47:33 UTC.
_MORNING_S, _AFTERNOON_S, _NIGHT_S = 1767603600.0, 1767622653.0, 1824331653.0
_ENGLISH = ("en_US.UTF-8", "C.UTF-8", "C")
_GERMAN = ("de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8", "C")


def surroundings(count: int, clock: Clock) -> tuple[Surroundings, ...]:
    """`count` fresh processes, as unlike as they can be made; always the same ones."""
    return tuple(_surroundings(number, clock) for number in range(count))


def _surroundings(number: int, clock: Clock) -> Surroundings:
    odd = number % 2 == 1
    return Surroundings(
        hash_seed=number,
        # POSIX's sign: UTC-14 is fourteen hours ahead. No time zone database is needed.
        timezone="UTC-14" if odd and clock is Clock.MONTHS else "UTC",
        locales=_GERMAN if odd else _ENGLISH,
        instant_s=_instant_s(clock, odd=odd),
        reverse_listings=odd,
    )


def _instant_s(clock: Clock, *, odd: bool) -> float | None:
    match clock, odd:
        case Clock.REAL, _:
            return None
        case _, False:
            return _MORNING_S
        case Clock.HOURS, _:
            return _AFTERNOON_S
        case _:
            return _NIGHT_S
