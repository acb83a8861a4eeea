"""What the gateway makes of the tier server's answers, and of their absence."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from app.errors import TierServerError
from app.tier_client import TierClient
from cache.usage import Tier
from tests.app.tier_server import TierServer, running_tier_server

pytestmark = pytest.mark.anyio

Answer = Callable[[str, bytes], tuple[int, bytes]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """A server that gives one answer for each request line and body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        body = await reader.readexactly(length)
        status, text = answer(head.split(b"\r\n")[0].decode(), body)
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(text), text))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"


async def test_it_reads_status_and_loads_and_destroys() -> None:
    with running_tier_server(TierServer(tier="redis", stop=128)) as server:
        client = TierClient(server.url)
        status = await client.status()
        load = await client.load_of("r-1")
        await client.destroy_salt("ab12")
        client.close()

    assert status.chunk_tokens == 64
    assert load is not None
    assert load.tokens()[Tier.REDIS] == 128
    assert (server.asked, server.destroyed) == (["r-1"], ["ab12"])


async def test_a_load_that_is_not_known_is_none_and_no_error() -> None:
    async with answering(lambda line, body: (404, b"{}")) as url:
        assert await TierClient(url).load_of("r") is None


async def test_names_travel_whole_whatever_is_in_them() -> None:
    seen: list[tuple[str, bytes]] = []

    def answer(line: str, body: bytes) -> tuple[int, bytes]:
        seen.append((line, body))
        return 200, b"{}"

    async with answering(answer) as url:
        await TierClient(url).destroy_salt("a/b ?#")
        await TierClient(url).switch("ssd", enabled=False, reason='"slow"')

    assert seen[0][0] == "DELETE /foreword/salts/a%2Fb%20%3F%23 HTTP/1.1"
    assert seen[1] == (
        "PUT /foreword/adapters/ssd HTTP/1.1",
        b'{"enabled": false, "reason": "\\"slow\\""}',
    )


@pytest.mark.parametrize("status", [404, 500, 503])
async def test_a_destruction_that_isnt_confirmed_is_an_error(status: int) -> None:
    async with answering(lambda line, body: (status, b"{}")) as url:
        with pytest.raises(TierServerError, match=f"status {status}"):
            await TierClient(url).destroy_salt("ab12")


async def test_an_answer_of_somebody_else_is_an_error_that_says_so() -> None:
    async with answering(lambda line, body: (200, b"<html>")) as url:
        for ask in (TierClient(url).status(), TierClient(url).load_of("r")):
            with pytest.raises(TierServerError, match="FOREWORD_TIERS__URL"):
                await ask


async def test_a_server_that_isnt_there_is_an_error_at_once() -> None:
    with pytest.raises(TierServerError, match="can't be asked"):
        await TierClient("http://127.0.0.1:1").status()


async def test_a_silent_server_is_waited_for_no_longer_than_the_time_limit() -> None:
    with running_tier_server(TierServer(delay_s=60.0)) as server:
        try:
            async with asyncio.timeout(30):
                with pytest.raises(TierServerError, match=r"silent|no answer"):
                    await TierClient(server.url, timeout_s=0.1).load_of("r")
        finally:
            server.delay_s = 0.0


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not an http"):
        TierClient("tcp://127.0.0.1:5556")
