"""Whom a replica that hangs wakes, and who may go on then."""

import asyncio

import pytest

from app.fleet.waiting import Waiting

pytestmark = pytest.mark.anyio


async def waits(waiting: Waiting, request_id: str) -> str:
    waiting.begun(request_id, asyncio.current_task())
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        if waiting.was_given_up(request_id):
            await asyncio.sleep(0)  # it can wait again
            return "given up"
        raise
    finally:
        waiting.ended(request_id)
    return "answered"


async def test_all_that_wait_are_woken_once() -> None:
    waiting = Waiting()
    tasks = [asyncio.create_task(waits(waiting, name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    assert (waiting.give_up(), waiting.give_up()) == (2, 0)
    assert await asyncio.gather(*tasks) == ["given up", "given up"]
    assert waiting.give_up() == 0


async def test_one_whose_client_went_too_is_cancelled() -> None:
    waiting = Waiting()
    task = asyncio.create_task(waits(waiting, "a"))
    await asyncio.sleep(0)
    waiting.give_up()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_whose_client_went_is_not_given_up() -> None:
    waiting = Waiting()
    task = asyncio.create_task(waits(waiting, "a"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
