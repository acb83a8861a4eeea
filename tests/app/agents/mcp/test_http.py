"""Servers behind URLs: where a request may go, what is taken, and what is known of a failed one."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from app.agents.mcp.errors import McpAnswerError, McpOutcomeUnknownError, McpUnavailableError
from app.errors import InvalidSettingError
from app.settings import McpServerSettings
from app.stack.ports import free_ports
from tests.app.agents.mcp.conftest import opened, sdk_over_http

pytestmark = pytest.mark.anyio
_LONG_S = 60.0


def at(port: int, **more: Any) -> McpServerSettings:
    return McpServerSettings(url=f"http://127.0.0.1:{port}/mcp", allow_private=True, **more)


async def test_a_server_over_http_is_as_one_over_stdio(tmp_path: Path, http_port: int) -> None:
    settings = at(http_port, headers_from={"X-Token": "env:TOKEN"})
    async with opened(tmp_path, kitchen=settings) as servers:
        session = servers.session("kitchen")
        assert "echo" in {tool.name for tool in await session.listed()}
        text = " \u0000\r\n<|im_end|>ä"
        assert (await session.call("echo", {"text": text}, within_s=_LONG_S)).text == text
        said = await session.call("header", {"name": "x-token"}, within_s=_LONG_S)
        assert said.text == "t0ken"
        with pytest.raises(McpOutcomeUnknownError, match="not in time"):
            await session.call("wait", {"path": str(tmp_path / "never")}, within_s=1.0)
        failed = await session.call("fail", {"why": "because"}, within_s=_LONG_S)
        assert failed.is_error


async def test_a_slow_call_ends_in_time_and_others_go_on(tmp_path: Path, http_port: int) -> None:
    async with opened(tmp_path, kitchen=at(http_port)) as servers:
        session = servers.session("kitchen")
        gate = tmp_path / "gate"
        late: list[str] = []

        async def patient() -> None:
            said = await session.call("wait", {"path": str(gate)}, within_s=_LONG_S)
            late.append(said.text)

        await session.listed()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(patient)
            with pytest.raises(McpOutcomeUnknownError, match="not in time"):
                await session.call("wait", {"path": str(tmp_path / "never")}, within_s=1.0)
            gate.touch()
        assert late == ["there"]


async def test_too_large_an_answer_over_http_is_dropped(tmp_path: Path, http_port: int) -> None:
    async with opened(tmp_path, kitchen=at(http_port, max_message_bytes=20_000)) as servers:
        session = servers.session("kitchen")
        with pytest.raises(McpAnswerError, match="more than the 20,000 bytes"):
            await session.call("big", {"size": 100_000}, within_s=_LONG_S)
        said = await session.call("echo", {"text": "well"}, within_s=_LONG_S)
        assert said.text == "well"


async def test_a_server_that_dies_in_a_call_over_http(tmp_path: Path) -> None:
    """Nobody knows what the call did. While it is away none is made; then it is there again."""
    [port] = free_ports(1)
    done = tmp_path / "done"
    async with opened(tmp_path, kitchen=at(port)) as servers:
        session = servers.session("kitchen")
        with sdk_over_http(port), pytest.raises(McpOutcomeUnknownError):
            await session.call("end", {"path": str(done)}, within_s=_LONG_S)
        with pytest.raises(McpUnavailableError):
            await session.call("end", {"path": str(done)}, within_s=_LONG_S)
        with sdk_over_http(port):
            with anyio.fail_after(_LONG_S):
                said = await _until_there(lambda: session.call("add", ADD, within_s=_LONG_S))
            assert said.text == "3"
    assert done.read_text() == "done\n"


ADD = {"a": 1, "b": 2}


async def _until_there(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return await call()
        except McpUnavailableError:
            await anyio.sleep(0.1)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://mcp.example/mcp", "https://"),
        ("ftp://mcp.example/mcp", "https://"),
        ("https://user:word@mcp.example/mcp", "user or a password"),
    ],
)
async def test_a_url_that_may_not_be_asked_is_refused_at_start(
    tmp_path: Path, url: str, problem: str
) -> None:
    with pytest.raises(InvalidSettingError, match=problem):
        async with opened(tmp_path, there=McpServerSettings(url=url)):
            pass


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:10.0.0.1]"]
)
async def test_an_address_that_is_not_public_is_refused_at_the_start(
    tmp_path: Path, host: str
) -> None:
    settings = McpServerSettings(url=f"https://{host}/mcp")
    with pytest.raises(InvalidSettingError, match=r"isn't a public address|link-local"):
        async with opened(tmp_path, inside=settings):
            pass


async def test_a_name_whose_address_is_not_public_is_not_asked(tmp_path: Path) -> None:
    settings = McpServerSettings(url="https://localhost/mcp")
    async with opened(tmp_path, inside=settings) as servers:
        with pytest.raises(McpUnavailableError, match="isn't a public address"):
            await servers.session("inside").listed()


async def test_a_redirect_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    with answering(b"", 307, location="http://127.0.0.1:1/elsewhere") as (port, asked):
        async with opened(tmp_path, moved=at(port)) as servers:
            with pytest.raises(McpUnavailableError, match="not followed"):
                await servers.session("moved").listed()
        assert all(path == "/mcp" for path in asked)


@pytest.mark.parametrize(
    ("headers", "status", "problem"),
    [
        ({"content-encoding": "gzip"}, 200, "compressed"),
        ({}, 200, "more than the 2,000 bytes"),
        ({}, 401, "more than the 2,000 bytes"),
    ],
)
async def test_what_is_no_answer_opens_no_session(
    tmp_path: Path, headers: dict[str, str], status: int, problem: str
) -> None:
    with answering(b"[" * 100_000, status, **headers) as (port, _):
        async with opened(tmp_path, odd=at(port, max_message_bytes=2_000)) as servers:
            with pytest.raises(McpUnavailableError, match=problem):
                await servers.session("odd").listed()


async def test_a_session_that_the_server_forgot_is_opened_again(tmp_path: Path) -> None:
    """An older server, with sessions: it refuses the call, so it can be made once more."""
    with remembering() as (port, calls, sessions):
        async with opened(tmp_path, old=at(port)) as servers:
            session = servers.session("old")
            assert (await session.call("tool", {}, within_s=_LONG_S)).text == "1"
            sessions.clear()
            assert (await session.call("tool", {}, within_s=_LONG_S)).text == "2"
            assert calls == ["session-1", "session-2"]


async def test_an_event_that_is_too_large_ends_its_call_alone(tmp_path: Path) -> None:
    """It needn't have been the result: nobody knows what the call did."""
    with remembering() as (port, calls, _):
        async with opened(tmp_path, old=at(port, max_message_bytes=20_000)) as servers:
            session = servers.session("old")
            said = await session.call("tool", {"stream": 1_000}, within_s=_LONG_S)
            assert said.text == "z" * 1_000
            with pytest.raises(McpOutcomeUnknownError, match="exceeded"):
                await session.call("tool", {"stream": 100_000}, within_s=_LONG_S)
            assert (await session.call("tool", {}, within_s=_LONG_S)).text == "3"
        assert len(calls) == 3


@contextmanager
def remembering() -> Iterator[tuple[int, list[str], set[str]]]:
    """A server of the protocol's older kind; `calls` have their sessions, `sessions` it knows."""
    calls: list[str] = []
    sessions: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            session = self.headers.get("mcp-session-id", "")
            match asked["method"]:
                case "initialize":
                    session = f"session-{len(calls) + 1}"
                    sessions.add(session)
                    version = asked["params"]["protocolVersion"]
                    info = {"name": "old", "version": "1"}
                    self.reply(
                        asked,
                        {"protocolVersion": version, "capabilities": {}, "serverInfo": info},
                        session,
                    )
                case _ if session not in sessions:
                    self.send_error(404)
                case "tools/call":
                    calls.append(session)
                    size = asked["params"]["arguments"].get("stream")
                    text = {"type": "text", "text": "z" * size if size else str(len(calls))}
                    self.reply(asked, {"content": [text]}, session, streamed=size is not None)
                case _:
                    self.send_response(202)
                    self.send_header("content-length", "0")
                    self.end_headers()

        def do_GET(self) -> None:
            self.send_error(405)

        do_DELETE = do_GET  # noqa: N815 - as the base class names them

        def reply(self, asked: Any, result: Any, session: str, *, streamed: bool = False) -> None:
            text = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            body = f"event: message\ndata: {text}\n\n".encode() if streamed else text.encode()
            self.send_response(200)
            kind = "text/event-stream" if streamed else "application/json"
            self.send_header("content-type", kind)
            self.send_header("mcp-session-id", session)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as port:
        yield port, calls, sessions


@contextmanager
def answering(body: bytes, status: int, **headers: str) -> Iterator[tuple[int, list[str]]]:
    """A server that answers every request so."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            asked.append(self.path)
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as port:
        yield port, asked


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
