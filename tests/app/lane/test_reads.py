"""A stream is the same however the engine's bytes are cut into reads."""

import asyncio
import re
from itertools import combinations

import pytest

from app.upstream_connection import Connection

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST = b"1\r\n.\r\n"
# Parts of a chunk's head that look like a whole one: behind an extension, and behind a zero.
CHUNKS = b"3;x=3\r\nabc\r\n5\r\nhello\r\n05\r\nworld\r\n4\r\n\r\n\r\n\r\n"
END = b"0\r\nx: y\r\n\r\n"
SAID = b".abchelloworld\r\n\r\n"
_CHUNK = re.compile(rb"([0-9]+)\r\n")


class Client:
    """What came, whichever way."""

    def __init__(self) -> None:
        self.said = b""
        self.straight_reads = 0

    def take(self, data: bytes) -> bool:
        self.said += data
        return True

    def straight(self, data: bytes) -> bool | None:
        """Takes reads of whole chunks whose heads are sizes alone."""
        said, at = b"", 0
        while at < len(data):
            head = _CHUNK.match(data, at)
            if head is None or not int(head[1]):
                return None
            end = head.end() + int(head[1])
            if data[end : end + 2] != b"\r\n":
                return None
            said, at = said + data[head.end() : end], end + 2
        self.said += said
        self.straight_reads += 1
        return True


class Wire(asyncio.Transport):
    """Leads nowhere."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        return

    def abort(self) -> None:
        return


async def begun(client: Client) -> tuple[Connection, "asyncio.Task[None]"]:
    """A stream whose first chunk has come, and which is poured."""
    connection = Connection()
    connection.connection_made(Wire())
    connection.start(b"", 60)
    connection.data_received(HEAD + FIRST)
    pouring = asyncio.create_task(connection.pour(client.take, 60, client.straight))
    await asyncio.sleep(0)
    return connection, pouring


async def test_cuts_at_every_two_places_make_no_difference() -> None:
    data, straight = CHUNKS + END, 0
    for stops in combinations(range(1, len(data)), 2):
        client = Client()
        connection, pouring = await begun(client)
        for start, stop in zip((0, *stops), (*stops, len(data)), strict=True):
            connection.data_received(data[start:stop])
        await pouring
        assert client.said == SAID, stops
        straight += client.straight_reads
    assert straight > 0


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    client = Client()
    connection, pouring = await begun(client)
    connection.data_received(CHUNKS + END)
    assert connection.alive
    connection.data_received(b"5\r\nagain\r\n")
    await pouring
    assert client.said == SAID
    assert connection.complete
    assert not connection.alive


async def test_nothing_is_passed_on_after_a_fault() -> None:
    class Failing(Client):
        def take(self, data: bytes) -> bool:
            if data == b"abc":
                raise ValueError(data)
            return super().take(data)

    client = Failing()
    connection, pouring = await begun(client)
    connection.data_received(b"3;x=3\r\nabc\r\n")
    connection.data_received(b"5\r\nhello\r\n")
    with pytest.raises(ValueError, match="abc"):
        await pouring
    assert client.said == b"."
