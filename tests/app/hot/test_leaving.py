"""What a client that goes away stops, and what it doesn't."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Message, Scope

from app.errors import GatewayStoppingError
from app.hot.departure import (
    cut_short,
    ended_by_departure,
    hang_up,
    put_departure,
    shielded,
)

pytestmark = pytest.mark.anyio


SCOPE: dict[str, Any] = {"type": "http", "state": {}}


class Client:
    """The receiving side of a connection."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_work_ends_with_its_client() -> None:
    client, done = Client(), False
    with anyio.fail_after(30):
        with ended_by_departure(SCOPE, client.receive):
            client.left.set()
            await anyio.sleep_forever()
            done = True
        assert not done


async def test_what_is_shielded_is_finished_first() -> None:
    client, written = Client(), False
    with anyio.fail_after(30):
        with ended_by_departure(SCOPE, client.receive) as departure:
            try:
                await anyio.lowlevel.checkpoint()
            finally:
                with shielded(departure):
                    client.left.set()
                    await anyio.sleep(0.02)
                    written = True
            await anyio.sleep_forever()
    assert written


async def test_work_that_is_done_leaves_no_watch_behind() -> None:
    client, before = Client(), asyncio.all_tasks()
    with ended_by_departure(SCOPE, client.receive):
        await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()
    assert asyncio.all_tasks() == before


async def test_an_error_of_the_work_comes_out() -> None:
    with pytest.raises(LookupError), ended_by_departure(SCOPE, Client().receive):
        raise LookupError


async def test_a_connection_that_fails_ends_the_work_too() -> None:
    async def receive() -> Message:
        raise OSError("reset")

    with anyio.fail_after(30), ended_by_departure(SCOPE, receive):
        await anyio.sleep_forever()


async def never() -> Message:
    raise AssertionError("nobody has to watch a client whose protocol tells when it leaves")


async def test_a_protocol_tells_who_left_and_nobody_watches() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)
    before = asyncio.all_tasks()
    with anyio.fail_after(30), ended_by_departure(scope, never):
        assert asyncio.all_tasks() == before
        asyncio.get_running_loop().call_soon(hang_up, scope)
        await anyio.sleep_forever()
    await anyio.lowlevel.checkpoint()  # not cancelled any more


async def test_who_left_before_is_not_waited_for() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)
    hang_up(scope)
    with anyio.fail_after(30), ended_by_departure(scope, never):
        await anyio.sleep_forever()


async def test_what_is_cut_is_told_by_an_error_of_its_own() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)
    error: GatewayStoppingError | None = None
    try:
        with anyio.fail_after(30), ended_by_departure(scope, never):
            asyncio.get_running_loop().call_soon(cut_short, scope)
            await anyio.sleep_forever()
    except GatewayStoppingError as cut:
        error = cut
    assert error is not None
    await anyio.lowlevel.checkpoint()  # not cancelled any more


async def test_what_is_cut_may_go_on_to_tell_its_client_and_to_write_it_down() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)
    told = False
    with anyio.fail_after(30), ended_by_departure(scope, never) as departure:
        asyncio.get_running_loop().call_soon(cut_short, scope)
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            assert departure.takes_back()
        with shielded(departure):
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        told = True
    assert told


async def test_what_is_shielded_from_a_cut_is_finished_first() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)
    written = was_told = False
    try:
        with anyio.fail_after(30), ended_by_departure(scope, never) as departure:
            with shielded(departure):
                cut_short(scope)
                await anyio.sleep(0.02)
                written = True
            await anyio.sleep_forever()
    except GatewayStoppingError:
        was_told = True
    assert written
    assert was_told


async def test_a_cut_of_who_has_left_is_a_leaving() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)
    with anyio.fail_after(30), ended_by_departure(scope, never) as departure:
        hang_up(scope)
        cut_short(scope)
        try:
            await anyio.sleep_forever()
        finally:
            assert not departure.takes_back()


async def test_a_cancellation_of_somebody_else_goes_on() -> None:
    scope: Scope = {"type": "http", "state": {}}
    put_departure(scope)

    async def work() -> None:
        with ended_by_departure(scope, never):
            await anyio.sleep_forever()

    task = asyncio.ensure_future(work())
    await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
