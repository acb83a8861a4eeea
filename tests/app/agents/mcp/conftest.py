"""MCP servers, and sessions with them."""

import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from app.agents.mcp.servers import McpServers, open_servers
from app.agents.tools import ToolContext
from app.settings import McpServerSettings, McpSettings
from app.stack.ports import free_ports

HERE = Path(__file__).parent
RUN = ToolContext(tenant="local", run_id="resp_1", call_id="call_1", deadline=None)


def sdk(**more: Any) -> McpServerSettings:
    """The server made with the SDK, as a child."""
    arguments = (str(HERE / "sdk_server.py"), "stdio")
    return McpServerSettings(command=sys.executable, args=arguments, **more)


def raw(folder: Path, *modes: str, **more: Any) -> McpServerSettings:
    """The server that has no manners."""
    arguments = ("-S", str(HERE / "raw_server.py"), str(folder), *modes)
    return McpServerSettings(command=sys.executable, args=arguments, **more)


@asynccontextmanager
async def opened(folder: Path, **servers: McpServerSettings) -> AsyncIterator[McpServers]:
    """Servers by name, with an environment of one secret."""
    environment = {"TOKEN": "t0ken", "OTHER": "0ther"}
    settings = McpSettings(servers=servers)
    async with open_servers(settings, home=folder, environment=environment) as made:
        yield made


async def until(seen: Callable[[], object], *, within_s: float = 60.0) -> None:
    """Wait for something to be so."""
    deadline = anyio.current_time() + within_s
    while not seen():
        assert anyio.current_time() < deadline
        await anyio.sleep(0.02)


@contextmanager
def sdk_over_http(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The same server at `http://127.0.0.1:PORT/mcp`, listening."""
    program = subprocess.Popen([sys.executable, str(HERE / "sdk_server.py"), str(port)])
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield program
    finally:
        program.kill()
        program.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def http_port() -> Iterator[int]:
    [port] = free_ports(1)
    with sdk_over_http(port):
        yield port


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """As the gateway runs."""
    return "asyncio", {"use_uvloop": True}
