"""A burst of new connections is taken at once, however long the event loop's turns are."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
import uvloop

from app.wire import Accepting

_BURST = 300


class _Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports don't derive from asyncio's.
        cast(asyncio.WriteTransport, transport).write(b"hello")


@asynccontextmanager
async def _listening(*, at_once: bool) -> AsyncIterator[tuple[str, int]]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Greeter, "127.0.0.1", 0, backlog=2 * _BURST)
    accepting = Accepting(loop, server.sockets, _Greeter) if at_once else None
    host, port = server.sockets[0].getsockname()
    yield host, port
    if accepting is not None:
        await accepting.close()
    server.close()
    await server.wait_closed()


async def _turns_until_all_are_greeted(*, at_once: bool) -> int:
    """How often the loop went round from when all had connected until all were answered."""
    async with _listening(at_once=at_once) as address:
        # The kernel answers them; the event loop doesn't run meanwhile.
        clients = [socket.create_connection(address, timeout=30) for _ in range(_BURST)]
        for client in clients:
            client.setblocking(False)
        turns, greeted = 0, set[socket.socket]()
        while len(greeted) < _BURST:
            await asyncio.sleep(0)
            turns += 1
            for client in clients:
                if client not in greeted:
                    try:
                        assert client.recv(16) == b"hello"
                    except BlockingIOError:
                        continue
                    greeted.add(client)
        for client in clients:
            client.close()
        return turns


def test_a_burst_is_taken_in_a_few_turns() -> None:
    assert uvloop.run(_turns_until_all_are_greeted(at_once=True)) < _BURST // 10


def test_what_the_loop_does_by_itself_is_why() -> None:
    """Where this fails, libuv takes all at once, and `Accepting` is of no more use."""
    assert uvloop.run(_turns_until_all_are_greeted(at_once=False)) >= _BURST // 2


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
def test_when_it_is_closed_nobody_listens(run: Callable[..., tuple[str, int]]) -> None:
    async def closed() -> tuple[str, int]:
        async with _listening(at_once=True) as address:
            assert await _greeting(address) == b"hello"
        return address

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(run(closed()), timeout=30)


def test_who_was_taken_has_a_protocol_when_it_is_closed() -> None:
    """A server that shuts down tells all connections that it knows: it must know them."""
    connected: list[asyncio.BaseTransport] = []

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connected.append(transport)

    async def known() -> int:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
            accepting = Accepting(asyncio.get_running_loop(), [listening], Noting)
            address = listening.getsockname()
            clients = [socket.create_connection(address, timeout=30) for _ in range(20)]
            await asyncio.sleep(0)  # they are taken, and no more
            assert connected == []
            await accepting.close()
            found = len(connected)
        for client in clients:
            client.close()
        return found

    assert uvloop.run(known()) == 20


async def _greeting(address: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    said = await reader.readexactly(5)
    writer.close()
    return said
