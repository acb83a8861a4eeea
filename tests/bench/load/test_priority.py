"""A generator before its neighbours, where that is permitted, and as it was afterwards."""

import os
import threading

import pytest

from bench.load.priority import ORDINARY, REAL_TIME, before_others

_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)


def _scheduling() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


def test_what_is_told_is_what_the_thread_has_and_it_ends() -> None:
    """Whether or not this machine permits it; the thread's own threads are ordinary."""
    before = _scheduling()
    found: list[int] = []
    with before_others() as told:
        assert (_scheduling() in _REAL_TIME) == (told == REAL_TIME)
        started = threading.Thread(target=lambda: found.append(_scheduling()))
        started.start()
        started.join()
    assert found == [before]
    assert _scheduling() == before


def test_who_does_not_want_it_stays_as_it_was() -> None:
    before = _scheduling()
    with before_others(wanted=False) as told:
        assert _scheduling() == before
        assert (told == REAL_TIME) == (before in _REAL_TIME)


def test_where_it_is_not_permitted_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    with before_others() as told:
        assert told == ORDINARY
