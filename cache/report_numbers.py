"""Figures as people read them. Pure.

Unknown is never printed as a number: it says "unknown", or "1,200+?" where only some of the
requests are known.
"""

import math
from datetime import UTC, datetime

from cache.summary import TokenSum

UNKNOWN = "unknown"


def count(number: int) -> str:
    """Thousands grouped by commas; rounded from 10**8 on, so that columns stay narrow."""
    if abs(number) < 10**8:
        return f"{number:,}"
    return f"{number / 10**6:,.0f}M" if abs(number) < 10**12 else f"{number / 10**12:,.1f}T"


def brief(number: int, *, digits: int) -> str:
    """The whole number up to so many digits, else rounded to three."""
    return count(number) if number < 10**digits else short(number)


def short(number: int) -> str:
    """Three digits and a letter, for plots: `65.2M`."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= 0.9995 * size:
            value = number / size
            return f"{value:.3g}{letter}" if value < 999.5 else f"{value:,.0f}{letter}"
    return str(number)


def tokens(figure: TokenSum) -> str:
    """A sum, marked where some of its requests are unknown."""
    if not figure.unknown_requests:
        return count(figure.tokens)
    return f"{count(figure.tokens)}+?" if figure.known_requests else UNKNOWN


def percent(rate: float | None, *, of_some: int = 1) -> str:
    """Rounded down, so that 100.0 % is said of all tokens only; n/a where there was nothing."""
    if rate is None:
        return UNKNOWN if of_some else "n/a"
    tenths = math.floor(round(1000 * rate, 6))
    return f"{min(tenths, 999 if rate < 1 else tenths) / 10:.1f} %"


def share(part: int, whole: int) -> str:
    """A part in percent of a whole; something is never 0.0 %, and not all is never 100.0 %."""
    if not whole:
        return "n/a"
    return "< 0.1 %" if 0 < 1000 * part < whole else percent(part / whole)


def points(difference: float) -> str:
    """A difference of two rates in percentage points."""
    return f"{100 * abs(difference):.1f} points"


def duration(seconds: float | None) -> str:
    """Milliseconds below a second, seconds below 100 s, then minutes, hours and days."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 100:
        return f"{seconds:.2f} s"
    if seconds < 1000:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else long_duration(seconds)


def long_duration(seconds: float) -> str:
    """Minutes, hours or days with one decimal."""
    for unit_s, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {name}"
    return f"{seconds:.1f} s"


def moment(at: datetime) -> str:
    """An instant in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(number: int, one: str, many: str | None = None) -> str:
    """A counted noun: `1 request`, `2 requests`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
