"""How an answer is written: in few pieces, and never a wrong one."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl

from app.wire.cycle import Cycle

pytestmark = pytest.mark.anyio

App = Callable[[Scope, Receive, Send], Awaitable[None]]
START: dict[str, Any] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-length", b"2")],
}
STREAM: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}


class Wire(asyncio.Transport):
    """Keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def cycle_for(
    wire: Wire, *, method: str = "POST", version: str = "1.1", keep_alive: bool = True
) -> Cycle:
    return Cycle(
        scope={  # type: ignore[typeddict-item]
            "type": "http",
            "http_version": version,
            "method": method,
            "state": {},
        },
        transport=wire,
        flow=FlowControl(wire),
        logger=logging.getLogger("test_cycle"),
        access_logger=logging.getLogger("test_cycle"),
        access_log=False,
        default_headers=[(b"date", b"now")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


async def answered(*messages: dict[str, Any], **how: Any) -> Wire:
    wire = Wire()
    cycle = cycle_for(wire, **how)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            if message["type"] == "fault":
                raise LookupError("a fault of ours")
            await send(message)

    await cycle.run_asgi(app)  # type: ignore[arg-type]
    return wire


async def test_head_and_body_go_in_one_write() -> None:
    wire = await answered(START, body(b"ok"))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 2\r\n\r\nok"]
    assert not wire.closed


async def test_a_stream_is_chunked_and_its_first_piece_has_the_head_along() -> None:
    wire = await answered(STREAM, body(b"a", more=True), body(b"b" * 16, more=True), body(b""))
    head = b"HTTP/1.1 200 OK\r\ndate: now\r\ntransfer-encoding: chunked\r\n\r\n"
    assert wire.writes == [head + b"1\r\na\r\n", b"10\r\n" + b"b" * 16 + b"\r\n", b"0\r\n\r\n"]


async def test_an_empty_piece_sends_the_head_alone_and_then_nothing() -> None:
    wire = await answered(STREAM, body(b"", more=True), body(b"", more=True), body(b"a"))
    assert len(wire.writes) == 2
    assert wire.writes[1] == b"1\r\na\r\n0\r\n\r\n"


async def test_a_head_request_has_no_body() -> None:
    wire = await answered(START, body(b"ok"), method="HEAD")
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 2\r\n\r\n"]


async def test_http_1_0_gets_no_chunks_and_the_end_of_the_connection_for_that_of_the_body() -> None:
    pieces = (body(b"a", more=True), body(b"bc", more=True), body(b""))
    wire = await answered(STREAM, *pieces, version="1.0", keep_alive=False)
    head = b"HTTP/1.1 200 OK\r\ndate: now\r\nconnection: close\r\n\r\n"
    assert b"".join(wire.writes) == head + b"abc"
    assert wire.closed


@pytest.mark.parametrize("how", ["client", "app"])
async def test_the_last_answer_says_so_and_closes(how: str) -> None:
    says = [] if how == "client" else [(b"connection", b"Close")]
    start = START | {"headers": START["headers"] + says}
    wire = await answered(start, body(b"ok"), keep_alive=how != "client")
    assert wire.writes[0].lower().count(b"connection: close\r\n") == 1
    assert wire.closed


FAULTS: dict[str, list[dict[str, Any]]] = {
    "no head": [body(b"ok")],
    "two heads": [START, START],
    "nothing": [],
    "a head alone": [START],
    "a fault behind the head": [START, {"type": "fault"}],
    "a longer body": [START, body(b"long")],
    "a header of two lines": [START | {"headers": [(b"x-a", b"1\r\nx-b: 2")]}, body(b"")],
    "a name of two lines": [START | {"headers": [(b"x-a: 1\r\nx-b", b"2")]}, body(b"")],
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_before_anything_was_written_is_a_500(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await answered(*FAULTS[name])
    [written] = wire.writes
    assert written.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    told = json.loads(written.partition(b"\r\n\r\n")[2])
    assert told["error"]["code"] == "internal_error"
    assert b"x-b" not in written
    assert wire.closed
    assert caplog.records


@pytest.mark.parametrize("last", [body(b""), {"type": "fault"}], ids=["shorter", "fault"])
async def test_a_fault_after_that_ends_the_connection(last: dict[str, Any]) -> None:
    wire = await answered(START, body(b"o", more=True), last)
    assert len(wire.writes) == 1
    assert wire.closed


async def test_an_answer_waits_for_a_client_that_reads_slowly() -> None:
    wire = Wire()
    cycle = cycle_for(wire)
    cycle.flow.pause_writing()
    await asyncio.wait([sending := asyncio.ensure_future(cycle.send(START))], timeout=0.02)
    assert not sending.done()
    cycle.flow.resume_writing()
    await sending
    await cycle.send(body(b"ok"))
    assert len(wire.writes) == 1


async def test_nothing_is_written_to_who_is_gone() -> None:
    wire = Wire()
    cycle = cycle_for(wire)
    cycle.disconnected = True
    await cycle.send(START)
    await cycle.send(body(b"ok"))
    assert wire.writes == []
