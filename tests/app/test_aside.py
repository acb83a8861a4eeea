"""Long work leaves the event loop free, and is done a few at a time."""

import threading

import anyio
import pytest

from app.aside import Aside

pytestmark = pytest.mark.anyio

WORKS = 12


@pytest.mark.parametrize(("characters", "at_once"), [(100_000, 4), (10_000_000, 1)])
async def test_only_a_few_are_at_work_at_once(characters: int, at_once: int) -> None:
    aside, lock = Aside(), threading.Lock()
    began, end = threading.Event(), threading.Event()
    at_work, most = 0, 0

    def work() -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        began.set()
        end.wait(30)
        with lock:
            at_work -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(WORKS):
            tasks.start_soon(lambda: aside.done(work, characters=characters))
        # In one of the threads that the gateway's other work has.
        assert await anyio.to_thread.run_sync(began.wait, 30)
        end.set()
    assert 1 <= most <= at_once


async def test_short_work_is_done_at_once() -> None:
    assert await Aside().done(threading.get_ident, characters=100) == threading.get_ident()
