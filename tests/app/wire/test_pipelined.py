"""Requests that come before the one in front is answered, in whatever reads: all in order."""

import asyncio
import re
from collections import Counter

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.wire import GuardedProtocol
from app.wire.protocol import _WAITING
from tests.app.wire.guarded import PATIENT
from tests.app.wire.raw_client import request

_ANSWER = re.compile(rb"HTTP/1\.1 200 OK\r\n(.*?)\r\n\r\n(\d+:[a-z]*);", re.DOTALL)


class Wire(asyncio.Transport):
    """A client that reads all."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says which request it was, and its body; after a while where the path says so."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    for _ in range(int(scope["query_string"] or b"0")):
        await asyncio.sleep(0)
    said = scope["path"].strip("/").encode() + b":" + body + b";"
    length = (b"content-length", b"%d" % len(said))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": said})


class Heard:
    """What a client heard that sent bytes in reads."""

    def __init__(self, wire: Wire, refused: Counter[str]) -> None:
        found = _ANSWER.findall(wire.written)
        self.said = [said.decode() for _, said in found]
        self.closes = [b"connection: close" in head for head, _ in found]
        self.ended = wire.ended
        self.refused = dict(refused)


async def _heard(reads: list[bytes], turns: list[int]) -> Heard:
    refused: Counter[str] = Counter()
    config = uvicorn.Config(_app, log_config=None)
    config.load()
    state = ServerState()
    protocol = GuardedProtocol(config, state, {}, limits=PATIENT, refused=refused)
    wire = Wire()
    protocol.connection_made(wire)
    for number, read in enumerate(reads):
        protocol.data_received(read)
        for _ in range(turns[number % len(turns)] if turns else 0):
            await asyncio.sleep(0)
    while protocol.under_way:
        await asyncio.wait(state.tasks)
    heard = Heard(wire, refused)
    protocol.connection_lost(None)
    return heard


def _requests(count: int, waits: list[int], bodies: list[str]) -> tuple[bytes, list[str]]:
    data, expected = b"", []
    for number in range(count):
        wait = waits[number % len(waits)]
        body = bodies[number % len(bodies)].encode()
        length = b"content-length: %d" % len(body)
        data += request(b"POST", f"/{number}?{wait}", length) + body
        expected.append(f"{number}:{body.decode()}")
    return data, expected


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    stops = sorted({place % len(data) for place in places} - {0})
    return [data[a:b] for a, b in zip([0, *stops], [*stops, len(data)], strict=True)]


_WAITS = st.lists(st.integers(0, 3), min_size=1, max_size=5)
_BODIES = st.lists(st.text("abc", max_size=12), min_size=1, max_size=4)
_PLACES = st.lists(st.integers(0, 10_000), max_size=12)
_TURNS = st.lists(st.integers(0, 6), max_size=4)


@settings(deadline=None, max_examples=200)
@given(count=st.integers(1, 12), waits=_WAITS, bodies=_BODIES, places=_PLACES, turns=_TURNS)
def test_all_are_answered_in_order_however_they_are_cut(
    count: int, waits: list[int], bodies: list[str], places: list[int], turns: list[int]
) -> None:
    data, expected = _requests(count, waits, bodies)
    heard = asyncio.run(_heard(_cut(data, places), turns))
    assert heard.said == expected
    assert not any(heard.closes)
    assert not heard.ended


@settings(deadline=None, max_examples=50)
@given(more=st.integers(2, 40), bodies=_BODIES, places=_PLACES)
def test_of_too_many_the_last_that_is_answered_says_that_it_is(
    more: int, bodies: list[str], places: list[int]
) -> None:
    data, expected = _requests(_WAITING + more, [60], bodies)
    heard = asyncio.run(_heard(_cut(data, places), []))
    assert heard.said == expected[: _WAITING + 1]
    assert heard.closes == [False] * _WAITING + [True]
    assert heard.ended
    assert heard.refused == {"pipelined_too_many": 1}


@pytest.mark.parametrize("behind", [b"GARBAGE\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"])
def test_what_comes_before_a_fault_is_answered(behind: bytes) -> None:
    data, expected = _requests(4, [3], ["abc"])
    heard = asyncio.run(_heard([data + behind], []))
    assert heard.said == expected
    assert heard.closes == [False, False, False, True]
    assert heard.ended


def test_an_upgrade_that_is_passed_over_is_answered_behind_others() -> None:
    data, expected = _requests(2, [3], [""])
    offer = request(b"GET", "/2", b"connection: upgrade", b"upgrade: websocket")
    heard = asyncio.run(_heard([data + offer + b"bytes of another protocol"], []))
    assert heard.said == [*expected, "2:"]
    assert heard.closes == [False, False, True]
