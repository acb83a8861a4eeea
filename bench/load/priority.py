"""The generator before its neighbours: real-time priority while it sends, where that is permitted.

A generator that shares cores with an engine wakes when the engine lets it, and would count that as
the engine's time to the first token. It takes half of a core at 500 requests a second, and waits in
between, so that nobody starves.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

REAL_TIME = "real-time"
ORDINARY = "ordinary"


@contextmanager
def before_others(*, wanted: bool = True) -> Iterator[str]:
    """`REAL_TIME` for this thread, and `ORDINARY` again afterwards; tells which of them it got.

    What the thread starts meanwhile is ordinary. Whoever began with another scheduling than the
    usual one, as by `chrt`, keeps it.
    """
    if not hasattr(os, "sched_setscheduler"):  # no Linux
        yield ORDINARY
        return
    before = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    if before in (os.SCHED_FIFO, os.SCHED_RR):
        yield REAL_TIME
        return
    try:
        if not wanted or before != os.SCHED_OTHER:
            raise PermissionError
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        yield ORDINARY
        return
    try:
        yield REAL_TIME
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
