"""Garbage that holds itself is found while it is young, or when there is nothing else to do."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from app.garbage import GarbageWatch

_DAY_S = 86_400.0


@dataclass(eq=False)
class Ring:
    """Holds itself."""

    itself: "list[Ring]" = field(default_factory=list)


def ring() -> Ring:
    made = Ring()
    made.itself.append(made)
    return made


def young(number: int) -> list[list[int]]:
    """So many objects that a collection would look at."""
    return [[number] for _ in range(number)]


@dataclass
class Clock:
    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> Iterator[GarbageWatch]:
    made = GarbageWatch(now=clock)
    made.begin()
    yield made
    made.end()


def test_young_garbage_goes_and_what_outlives_it_is_left_alone(watch: GarbageWatch) -> None:
    seen = weakref.ref(ring())
    before = gc.get_freeze_count()
    kept = young(20_000)
    assert seen() is None
    assert gc.get_freeze_count() - before > len(kept) - 8_000
    # Nothing is looked at a third time.
    assert gc.get_count()[2] == 0


def test_what_is_in_use_during_one_look_is_found_by_the_next(watch: GarbageWatch) -> None:
    held = ring()
    seen = weakref.ref(held)
    first = young(1_000)
    assert seen() is not None
    del held
    more = young(10_000)
    assert seen() is None
    assert len(first) + len(more) == 11_000


def test_old_garbage_goes_when_nothing_is_under_way(watch: GarbageWatch, clock: Clock) -> None:
    held = ring()
    seen = weakref.ref(held)
    kept = young(250_000)
    del held
    clock.at = 1.0
    assert not watch.look(idle=True)  # too soon
    clock.at = _DAY_S / 2
    assert not watch.look(idle=False)
    assert seen() is not None
    assert watch.look(idle=True)
    assert seen() is None
    clock.at += _DAY_S
    assert not watch.look(idle=True)  # nothing new
    assert len(kept) == 250_000


def test_a_gateway_that_never_rests_looks_once_a_day(watch: GarbageWatch, clock: Clock) -> None:
    kept = young(250_000)
    clock.at = _DAY_S - 1
    assert not watch.look(idle=False)
    clock.at = _DAY_S
    assert watch.look(idle=False)
    assert len(kept) == 250_000


def test_in_the_end_it_is_as_before() -> None:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    watch = GarbageWatch()
    watch.begin()
    assert gc.get_threshold() != before
    watch.end()
    assert (gc.get_threshold(), gc.callbacks, gc.get_freeze_count()) == (before, callbacks, 0)
