"""The upstream client against real sockets: pooling, streaming, and every way a server can fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from app.errors import EngineProtocolError, EngineTimeoutError, EngineUnreachableError
from app.upstream import Timeouts, Upstream

pytestmark = pytest.mark.anyio

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
PATIENT = Timeouts(connect_s=60, first_byte_s=60, between_bytes_s=60)


@asynccontextmanager
async def serving(handler: Handler, *, port: int = 0) -> AsyncIterator[int]:
    """A server that takes all its connections down with it."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0.01)


async def read_request(reader: asyncio.StreamReader) -> bytes | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


def upstream(port: int, *, timeouts: Timeouts = PATIENT, max_connections: int = 8) -> Upstream:
    return Upstream(f"http://127.0.0.1:{port}", timeouts=timeouts, max_connections=max_connections)


async def get(client: Upstream, path: str = "/", body: bytes = b"") -> bytes:
    response = await client.send("POST", path, body=body)
    try:
        return await response.read()
    finally:
        response.close()


async def test_a_connection_is_used_again() -> None:
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await read_request(reader):
            writer.write(OK)

    async with serving(handler) as port:
        client = upstream(port)
        assert [await get(client) for _ in range(5)] == [b"ok"] * 5
        client.close()
    assert connections == 1


async def test_the_request_arrives_whole() -> None:
    seen: list[bytes | None] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(OK)

    async with serving(handler) as port:
        client = upstream(port)
        response = await client.send("POST", "/v1/x", headers=[(b"x-a", b"1")], body=b"{}")
        response.close()
        client.close()
    assert seen[0] is not None
    head, body = seen[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"x-a: 1" in head
    assert body == b"{}"


async def test_a_body_streams_as_it_comes() -> None:
    released = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await released.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with serving(handler) as port:
        client = upstream(port)
        response = await client.send("GET", "/")
        chunks = response.chunks()
        assert await anext(chunks) == b"one"
        released.set()
        assert [chunk async for chunk in chunks] == [b"two"]
        response.close()
        client.close()


async def test_after_a_restart_stale_connections_cost_nothing() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            writer.write(OK)

    async with serving(handler) as port:
        client = upstream(port)
        first, second = await asyncio.gather(client.send("GET", "/"), client.send("GET", "/"))
        for response in (first, second):
            await response.read()
            response.close()
    async with serving(handler, port=port):
        assert await get(client) == b"ok"
        assert await get(client) == b"ok"
        client.close()


async def test_a_server_that_closes_silently_is_asked_once_more_on_a_fresh_connection() -> None:
    requests = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while await read_request(reader):
            requests += 1
            if requests == 2:
                writer.transport.abort()
                return
            writer.write(OK)

    async with serving(handler) as port:
        client = upstream(port)
        assert [await get(client), await get(client)] == [b"ok", b"ok"]
        client.close()
    assert requests == 3


async def test_a_fresh_connection_that_breaks_is_an_error() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.transport.abort()

    async with serving(handler) as port:
        with pytest.raises(EngineUnreachableError):
            await get(upstream(port))


async def test_an_answer_that_breaks_off_is_an_error() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()

    async with serving(handler) as port:
        response = await upstream(port).send("GET", "/")
        with pytest.raises(EngineUnreachableError, match="broke off"):
            await response.read()
        response.close()


async def test_silence_ends_in_a_timeout_that_names_its_phase() -> None:
    mute_s = Timeouts(connect_s=60, first_byte_s=0.1, between_bytes_s=60)
    stalls_s = Timeouts(connect_s=60, first_byte_s=60, between_bytes_s=0.1)

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        await reader.read()

    async with serving(mute) as port:
        with pytest.raises(EngineTimeoutError, match="first byte"):
            await get(upstream(port, timeouts=mute_s))
    async with serving(stalls) as port:
        response = await upstream(port, timeouts=stalls_s).send("GET", "/")
        with pytest.raises(EngineTimeoutError, match="between bytes"):
            await response.read()
        response.close()


async def test_nobody_there_and_nonsense_are_told_apart() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    async with serving(nonsense) as port:
        with pytest.raises(EngineProtocolError):
            await get(upstream(port))
    with pytest.raises(EngineUnreachableError):
        await get(upstream(port))


async def test_closing_an_unfinished_answer_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        with suppress(ConnectionResetError):
            await reader.read()
        gone.set()

    async with serving(handler) as port:
        response = await upstream(port).send("GET", "/")
        response.close()
        await asyncio.wait_for(gone.wait(), 30)


async def test_a_slow_reader_pauses_the_server() -> None:
    sent = 0
    megabyte = b"x" * 2**20

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (64 * 2**20))
        for _ in range(64):
            writer.write(megabyte)
            await writer.drain()
            sent += 1

    async with serving(handler) as port:
        client = upstream(port)
        response = await client.send("GET", "/")
        await asyncio.sleep(0.3)
        assert sent < 32
        assert len(await response.read()) == 64 * 2**20
        response.close()
        client.close()


async def test_connections_are_bounded() -> None:
    open_now = most = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        while await read_request(reader):
            await asyncio.sleep(0.01)
            writer.write(OK)
        open_now -= 1

    async with serving(handler) as port:
        client = upstream(port, max_connections=3)
        assert await asyncio.gather(*(get(client) for _ in range(20))) == [b"ok"] * 20
        client.close()
    assert most <= 3


@pytest.mark.parametrize("url", ["localhost:30000", "ftp://host", "http://"])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        Upstream(url, timeouts=PATIENT, max_connections=1)


async def test_a_connection_that_was_held_back_is_read_again_for_the_next_request() -> None:
    """A large answer that is complete but unread has its connection paused."""
    body = b"x" * 300_000

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader) is not None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async with serving(answer) as port:
        client = upstream(port)
        for _ in range(5):
            response = await client.send("GET", "/")
            await asyncio.sleep(0.05)
            response.close()
        assert await get(client) == body
        client.close()


async def test_closing_an_answer_twice_gives_its_connection_back_once() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            said = request.split(b" ")[1]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said))

    async with serving(answer) as port:
        client = upstream(port)
        first = await client.send("GET", "/first")
        await first.read()
        first.close()
        first.close()
        answers = await asyncio.gather(*(get(client, f"/{number}") for number in range(4)))
        assert answers == [b"/0", b"/1", b"/2", b"/3"]
        client.close()
