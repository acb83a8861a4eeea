"""Fixed spellings of numbers and dates: English words, no locale, exact decimals."""

import re
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum

NUMBER_FORMAT = re.compile(r"(,?)\.([0-9]|1[0-9]|20)([f%])")
_LARGEST_EXPONENT = 308
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS = re.compile("YYYY|MM|DD|Month|Weekday|D")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """`.2f`, `,.2f` (thousands with commas) or `.1%`: so many decimals, never more or fewer."""

    decimals: int
    thousands: bool = False
    percent: bool = False


class DateFormat(StrEnum):
    """The forms a date can take."""

    ISO = "YYYY-MM-DD"
    MONTH = "YYYY-MM"
    YEAR = "YYYY"
    DOTS = "DD.MM.YYYY"
    DAY_FIRST = "DD/MM/YYYY"
    MONTH_FIRST = "MM/DD/YYYY"
    LONG = "D Month YYYY"
    LONG_US = "Month D, YYYY"
    FULL = "Weekday, D Month YYYY"
    FULL_US = "Weekday, Month D, YYYY"


def parse_number_format(word: str) -> NumberFormat | None:
    """The format that `.2f` and the like describe; None for anything else."""
    found = NUMBER_FORMAT.fullmatch(word)
    if found is None:
        return None
    thousands, decimals, kind = found.groups()
    return NumberFormat(decimals=int(decimals), thousands=bool(thousands), percent=kind == "%")


def number_text(value: float | Decimal, form: NumberFormat) -> str:
    """The number with exactly the format's decimals; a half goes to the even neighbour.

    A float stands for the shortest decimal that reads back as it (2.675 is 2.675), so that the
    text is that of the number as people write it.

    Raises:
        ValueError: NaN, infinity, or a number of hundreds of digits.
    """
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise ValueError(f"is {value}, which has no digits to write")
    if exact.adjusted() > _LARGEST_EXPONENT:
        raise ValueError("is too large to be written out")
    # The thread's own decimal context could round otherwise.
    context = Context(prec=2 * _LARGEST_EXPONENT, rounding=ROUND_HALF_EVEN)
    if form.percent:
        exact = exact.scaleb(2, context)
    rounded = exact.quantize(Decimal(1).scaleb(-form.decimals, context), context=context)
    if rounded.is_zero():
        rounded = rounded.copy_abs()
    return format(rounded, ",f" if form.thousands else "f") + ("%" if form.percent else "")


def date_text(value: date, form: DateFormat) -> str:
    """The date in the given form."""
    parts = {
        "YYYY": f"{value.year:04d}",
        "MM": f"{value.month:02d}",
        "DD": f"{value.day:02d}",
        "D": str(value.day),
        "Month": _MONTHS[value.month - 1],
        "Weekday": _WEEKDAYS[value.weekday()],
    }
    return _PARTS.sub(lambda part: parts[part.group()], form)
