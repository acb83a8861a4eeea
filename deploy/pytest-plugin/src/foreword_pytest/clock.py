"""A clock that starts at another instant, for this whole process.

What is imported after `start_clock` sees it through `time` and `datetime`, however it imports them.
C code that asks the kernel itself does not.
"""

import datetime
import time
from collections.abc import Callable
from typing import Any

_Datetime = datetime.datetime
_Date = datetime.date


def start_clock(instant_s: float) -> None:
    """Make it `instant_s` now; from here the time goes on as usual."""
    moved_s = instant_s - time.time()
    _replace_time(time.time, time.time_ns, moved_s)
    _replace_datetime()


def _replace_time(now: Callable[[], float], now_ns: Callable[[], int], moved_s: float) -> None:
    moved_ns = int(moved_s * 1e9)
    time.time = lambda: now() + moved_s
    time.time_ns = lambda: now_ns() + moved_ns
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _with_default(getattr(time, name)))
    plain_strftime, plain_asctime = time.strftime, time.asctime
    time.strftime = lambda form, moment=None: plain_strftime(form, moment or time.localtime())
    time.asctime = lambda moment=None: plain_asctime(moment or time.localtime())


def _with_default(function: Callable[[float], Any]) -> Callable[[float | None], Any]:
    def at(moment_s: float | None = None) -> Any:
        return function(time.time() if moment_s is None else moment_s)

    return at


class _AlsoReal(type):
    """Values that C code makes are of the real class, and must pass for the moved one's.

    Classes derived from a moved one are ordinary.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__dict__.get("real_class", ())) or (
            super().__instancecheck__(instance)
        )

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__dict__.get("real_class", ())) or (
            super().__subclasscheck__(subclass)
        )


def _replace_datetime() -> None:
    class MovedDatetime(_Datetime, metaclass=_AlsoReal):
        real_class = _Datetime

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(time.time())

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

    class MovedDate(_Date, metaclass=_AlsoReal):
        real_class = _Date

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(time.time())

    for moved, real in ((MovedDatetime, _Datetime), (MovedDate, _Date)):
        moved.__name__ = moved.__qualname__ = real.__name__
        moved.__module__ = "datetime"
    datetime.datetime, datetime.date = MovedDatetime, MovedDate  # type: ignore[misc]
