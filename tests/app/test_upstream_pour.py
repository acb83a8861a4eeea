"""A body that is poured: handed on from where it is read."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from app.errors import EngineProtocolError, EngineTimeoutError, EngineUnreachableError
from app.upstream import Timeouts, UpstreamResponse
from tests.app.test_upstream import PATIENT, read_request, serving, upstream

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def poured(
    pieces: list[bytes],
    use: Callable[[UpstreamResponse], Awaitable[None]],
    *,
    timeouts: Timeouts = PATIENT,
    closes: bool = False,
) -> None:
    """Serve pieces one by one, each in a read of its own, to `use`."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        for piece in pieces:
            await asyncio.sleep(0.02)
            writer.write(piece)
        if not closes:
            await reader.read()

    async with serving(handler) as port:
        client = upstream(port, timeouts=timeouts)
        response = await client.send("GET", "/")
        try:
            await use(response)
        finally:
            response.close()
            client.close()


async def test_each_read_is_handed_on_until_the_body_ends() -> None:
    taken: list[bytes] = []

    async def use(response: UpstreamResponse) -> None:
        await response.pour(lambda data: not taken.append(data))  # type: ignore[func-returns-value]
        assert b"".join(taken) == b"onetwothree"
        assert await response.more() is None

    await poured([chunk(b"one"), chunk(b"two"), chunk(b"three") + LAST], use)


async def test_what_comes_after_the_taker_had_enough_waits() -> None:
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return len(taken) % 2 != 0

    async def use(response: UpstreamResponse) -> None:
        await response.pour(take)
        had = list(taken)
        await asyncio.sleep(0.1)
        assert taken == had
        while b"".join(taken) != b"12345":
            await response.pour(take)
        assert await response.more() is None

    await poured([chunk(b"%d" % n) for n in range(1, 6)] + [LAST], use)


async def test_the_takers_error_is_raised_where_the_pouring_is_waited_for() -> None:
    def take(data: bytes) -> bool:
        if data == b"two":
            raise LookupError("not understood")
        return True

    async def use(response: UpstreamResponse) -> None:
        with pytest.raises(LookupError, match="not understood"):
            await response.pour(take)

    await poured([chunk(b"one"), chunk(b"two"), chunk(b"three"), LAST], use)


async def test_silence_ends_it() -> None:
    async def use(response: UpstreamResponse) -> None:
        with pytest.raises(EngineTimeoutError, match="between bytes"):
            await response.pour(lambda data: True)

    impatient = Timeouts(connect_s=60, first_byte_s=60, between_bytes_s=0.1)
    await poured([chunk(b"one"), chunk(b"two")], use, timeouts=impatient)


async def test_words_in_time_are_no_silence() -> None:
    taken: list[bytes] = []

    async def use(response: UpstreamResponse) -> None:
        await response.pour(lambda data: not taken.append(data))  # type: ignore[func-returns-value]

    impatient = Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1.5)
    await poured([chunk(b"x")] * 100 + [LAST], use, timeouts=impatient)
    assert b"".join(taken) == b"x" * 100


def whole_chunks(data: bytes) -> list[bytes] | None:
    """What is in a read that begins and ends with a chunk; None for any other."""
    found = []
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size, 16) if size and not size.strip(b"0123456789abcdef") else 0
        if not length or rest[length : length + 2] != b"\r\n":
            return None
        found.append(rest[:length])
        data = rest[length + 2 :]
    return found


@pytest.mark.parametrize("seed", range(40))
async def test_whole_chunks_go_straight_and_the_rest_is_taken_apart(seed: int) -> None:
    """However the body is cut, all of it comes once and in order."""
    source = random.Random(seed)
    said = [b"%x\r\n" % source.getrandbits(64) * source.randint(1, 3) for _ in range(30)]
    body = b"".join(map(chunk, said)) + LAST
    taken: list[bytes] = []
    straight: list[bytes] = []

    def whole(data: bytes) -> bool | None:
        found = whole_chunks(data)
        if found is None or source.random() < 0.2:
            return None
        taken.extend(found)
        straight.extend(found)
        return source.random() < 0.9

    def take(data: bytes) -> bool:
        taken.append(data)
        return source.random() < 0.9

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        ends, at = [], 0
        for each in said:  # most cuts are between chunks, as an engine's are
            at += len(chunk(each))
            ends.append(at if source.random() < 0.8 else at - source.randint(1, 9))
        for begin, end in zip([0, *ends], [*ends, len(body)], strict=True):
            writer.write(body[begin:end])
            await asyncio.sleep(0.001)
        await reader.read()

    async with serving(handler) as port:
        client = upstream(port, timeouts=PATIENT)
        response = await client.send("GET", "/")
        while sum(map(len, taken)) < sum(map(len, said)):
            await response.pour(take, whole)
        assert await response.more() is None
        response.close()
        client.close()
    assert b"".join(taken) == b"".join(said)
    assert straight


async def test_an_engine_that_breaks_off_is_told() -> None:
    async def use(response: UpstreamResponse) -> None:
        with pytest.raises(EngineUnreachableError, match="broke off"):
            await response.pour(lambda data: True)

    await poured([chunk(b"one")], use, closes=True)


async def test_what_is_no_http_is_told() -> None:
    async def use(response: UpstreamResponse) -> None:
        with pytest.raises(EngineProtocolError):
            await response.pour(lambda data: True)

    await poured([chunk(b"one"), b"no chunk\r\n"], use)
