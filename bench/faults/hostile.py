"""Clients that are slow, break off in the middle, or send what no client should."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import orjson

from bench.faults.outcomes import Kind, Outcome, read_body
from bench.faults.traffic import CHAT, Tenant

_READ_S = 30.0
SLOW_CLIENTS = 40
_SLOW_BYTE_S = 0.5


async def slow_clients(port: int, tenant: Tenant) -> list[str]:
    """Heads and bodies that come a byte at a time: each is refused or closed in time."""
    head = _head(tenant, 4_096)
    cases = [("a head", b"", head)] * SLOW_CLIENTS + [("a body", head, b"{" * 4_096)] * SLOW_CLIENTS
    return await _problems([_drip(port, what, at_once, rest) for what, at_once, rest in cases])


async def half_bodies(port: int, tenant: Tenant) -> list[str]:
    """Bodies that end half-way: some clients hang up, some say nothing more."""
    head = _head(tenant, 1_000) + b'{"model": "default", "mess'
    left = [_hang_up(port, head) for _ in range(SLOW_CLIENTS)]
    silent = [_drip(port, "half a body", head, b"") for _ in range(SLOW_CLIENTS)]
    return await _problems([*left, *silent])


async def hostile_bodies(port: int, tenant: Tenant) -> list[str]:
    """What is no request gets a client's error with OpenAI's body, at once."""
    return await _problems(
        [_refused(port, what, _head(tenant, len(body)) + body) for what, body in _BODIES.items()]
        + [_refused(port, what, raw) for what, raw in _raw(tenant).items()]
    )


def _chat(**fields: object) -> bytes:
    message = {"role": "user", "content": "hello"}
    return orjson.dumps({"model": "default", "messages": [message], "max_tokens": 4, **fields})


_BODIES = {
    "no JSON": b"\x00\xff\xfe",
    "an empty body": b"",
    "a list": b"[]",
    "a bare number": b"1e999",
    "half of an object": b'{"model": "default", "messages": [',
    "a lone surrogate": b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    "ten thousand brackets": b"[" * 10_000 + b"]" * 10_000,
    "a million objects": b'{"messages": [' + b"{}," * 200_000 + b"{}]}",
    "messages of another type": _chat(messages="hello"),
    "no messages": _chat(messages=[]),
    "an unknown role": _chat(messages=[{"role": "god", "content": "hello"}]),
    "tokens below zero": _chat(max_tokens=-1),
    "more tokens than there are": _chat(max_tokens=10**12),
    "a temperature that is no number": _chat(temperature="hot"),
    "somebody else's salt": _chat(cache_salt="bolt"),
    "an engine's own field": _chat(rid="x", input_ids=[1, 2, 3]),
    "another model": _chat(model="../../etc/passwd"),
    "a stop that is no text": _chat(stop={"a": 1}),
}


def _raw(tenant: Tenant) -> dict[str, bytes]:
    body = _chat()
    length = b"content-length: %d\r\n" % len(body)
    begin = b"POST %b HTTP/1.1\r\nhost: x\r\n" % CHAT.encode()
    return {
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "two lengths": begin + length + b"content-length: 3\r\n\r\n" + body,
        "a length and chunks": begin + length + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "a length below zero": begin + b"content-length: -5\r\n\r\n",
        "a hundred kilobytes of headers": begin + b"x: " + b"a" * 100_000 + b"\r\n\r\n",
        "two hosts": begin + b"host: y\r\n" + length + b"\r\n" + body,
        "no key": begin + b"content-type: application/json\r\n" + length + b"\r\n" + body,
        "another tenant's key, cut short": _head(tenant, len(body)).replace(
            tenant.key.encode(), tenant.key[:-1].encode()
        )
        + body,
    }


def _head(tenant: Tenant, length: int) -> bytes:
    return (
        f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {tenant.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


async def _problems(cases: Sequence["asyncio._CoroutineLike[str | None]"]) -> list[str]:
    return [problem for problem in await asyncio.gather(*cases) if problem is not None]


async def _drip(port: int, what: str, at_once: bytes, rest: bytes) -> str | None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()

    async def send() -> None:
        writer.write(at_once)
        for byte in rest:
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(_SLOW_BYTE_S)

    sending = asyncio.create_task(send())
    try:
        async with asyncio.timeout(_READ_S):
            answer = await reader.read()
    except TimeoutError:
        return f"{what} that came too slowly was waited for longer than {_READ_S:g} s"
    except ConnectionError:
        return None
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await sending
        writer.close()
    if answer and not answer.startswith(b"HTTP/1.1 408"):
        after_s = time.monotonic() - began
        return f"{what} that came too slowly got {answer[:60]!r} after {after_s:.1f} s"
    return None


async def _hang_up(port: int, sent: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await asyncio.sleep(1)
    writer.close()


async def _refused(port: int, what: str, sent: bytes) -> str | None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(_READ_S):
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
    except TimeoutError:
        return f"{what}: no answer within {_READ_S:g} s"
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        return f"{what}: {error!r}"
    finally:
        writer.close()
    status = int(head.split()[1])
    if not 400 <= status < 500 or read_body(Kind.CHAT, status, body).outcome is not Outcome.REFUSED:
        return f"{what}: {status} {body[:120]!r}"
    return None
