"""Prefill speed of an engine that computes, that is away, and that isn't SGLang."""

import asyncio
from collections.abc import AsyncIterator

import anyio.lowlevel
import httpx
import pytest
from structlog.testing import capture_logs

from app.engine import EngineClient
from app.engine_speed import EngineSpeed
from app.upstream import Timeouts, Upstream
from bench.engine_sim import SimulatorThread

pytestmark = pytest.mark.anyio
TIMEOUTS = Timeouts(connect_s=5, first_byte_s=10, between_bytes_s=10)


@pytest.fixture
async def client(simulator: SimulatorThread) -> AsyncIterator[EngineClient]:
    client = EngineClient(Upstream(simulator.url, timeouts=TIMEOUTS, max_connections=4))
    yield client
    client.close()
    await anyio.lowlevel.checkpoint()


async def prefill(url: str, tokens: int, *, first: int) -> None:
    body = {
        "input_ids": [first + n % 5 for n in range(tokens)],
        "sampling_params": {"max_new_tokens": 1},
    }
    async with httpx.AsyncClient(trust_env=False) as http:
        (await http.post(f"{url}/generate", json=body, timeout=60)).raise_for_status()


async def test_speed_is_what_was_computed_by_the_time_it_took(
    simulator: SimulatorThread, client: EngineClient
) -> None:
    speed = EngineSpeed(client)
    await speed.advance()
    assert speed.speed is None
    assert speed.loads is not None
    before = speed.loads
    await prefill(simulator.url, 2000, first=10)
    await speed.advance()
    assert speed.loads is not None
    busy_s = speed.loads.busy_s - before.busy_s
    assert speed.speed is not None
    assert speed.speed.tokens_per_s == pytest.approx(2000 / busy_s)
    await prefill(simulator.url, 2000, first=10)
    await speed.advance()
    assert speed.speed.tokens == 2000  # re-used, so nothing new is known


async def test_an_engine_that_is_away_is_not_an_error() -> None:
    client = EngineClient(Upstream("http://127.0.0.1:9", timeouts=TIMEOUTS, max_connections=1))
    speed = EngineSpeed(client)
    await speed.advance()
    assert speed.loads is None
    assert speed.speed is None


async def test_a_server_that_is_no_sglang_is_told_once() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = EngineClient(
        Upstream(f"http://127.0.0.1:{port}", timeouts=TIMEOUTS, max_connections=1)
    )
    with capture_logs() as logged:
        speed = EngineSpeed(client)
        for _ in range(3):
            await speed.advance()
    assert speed.loads is None
    assert [line["event"] for line in logged].count("engine_loads_unreadable") == 1
    server.close()
    await server.wait_closed()
