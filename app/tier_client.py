"""The tier server's own routes (LMCache behind the guard), asked from the gateway.

Nothing that a client waits for depends on it: every failure is a `TierServerError`, which the
callers count and go on.
"""

import asyncio
import json
from urllib.parse import quote

from app.errors import EngineError, TierServerError
from app.upstream import Timeouts, Upstream
from cache.errors import TierAnswerError
from cache.tier_status import (
    LoadedChunks,
    TierStatus,
    parse_loaded_chunks,
    parse_tier_status,
)

BREAK_EVEN = "break-even: "
"""How the reason begins that an adapter is switched with by `app.tier_policy`."""

_CONNECTIONS = 8
_JSON = ((b"content-type", b"application/json"),)


class TierClient:
    """Asks one tier server.

    Args:
        url: base URL of LMCache's `--http-port`.
        timeout_s: longest wait for a whole answer, connecting included.

    Raises:
        ValueError: not an http:// or https:// address.
    """

    def __init__(self, url: str, *, timeout_s: float = 2.0) -> None:
        timeouts = Timeouts(connect_s=timeout_s, first_byte_s=timeout_s, between_bytes_s=timeout_s)
        self._upstream = Upstream(url, timeouts=timeouts, max_connections=_CONNECTIONS)
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        return self._upstream.url

    async def status(self) -> TierStatus:
        """Its adapters, counters and switches.

        Raises:
            TierServerError: it can't be asked, or its answer isn't understood.
        """
        _, body = await self._ask("GET", "/foreword/status")
        try:
            return parse_tier_status(body)
        except TierAnswerError as error:
            raise TierServerError(self.url, error.reason) from error

    async def load_of(self, request_id: str) -> LoadedChunks | None:
        """Which tier served each chunk that a request loaded; None if it knows of no load.

        Raises:
            TierServerError: it can't be asked, or its answer isn't understood.
        """
        path = f"/foreword/loads/{quote(request_id, safe='')}"
        status, body = await self._ask("GET", path, allowed=(200, 404))
        if status == 404:
            return None
        try:
            return parse_loaded_chunks(body)
        except TierAnswerError as error:
            raise TierServerError(self.url, error.reason) from error

    async def switch(self, adapter: str, *, enabled: bool, reason: str) -> None:
        """Use an adapter for look-ups and loads, or leave it; its stores go on.

        Raises:
            TierServerError: it can't be asked, or has no such adapter.
        """
        body = json.dumps({"enabled": enabled, "reason": reason}).encode()
        await self._ask("PUT", f"/foreword/adapters/{quote(adapter, safe='')}", body=body)

    async def destroy_salt(self, salt: str) -> None:
        """Make all KV that was stored under a salt unreadable, for good.

        Raises:
            TierServerError: it can't be asked, or couldn't do it: nothing is promised then.
        """
        await self._ask("DELETE", f"/foreword/salts/{quote(salt, safe='')}")

    async def clear_ram(self) -> None:
        """Drop what lies in the tier server's RAM; SSD and Redis keep theirs. LMCache's own route.

        Raises:
            TierServerError: it can't be asked, or refused.
        """
        await self._ask("POST", "/cache/clear", body=b'{"tier": "l1"}')

    async def configuration(self) -> bytes:
        """What LMCache was started with, as JSON. LMCache's own route.

        Raises:
            TierServerError: it can't be asked, or refused.
        """
        return (await self._ask("GET", "/config"))[1]

    def close(self) -> None:
        """Drop its idle connections."""
        self._upstream.close()

    async def _ask(
        self, method: str, path: str, *, body: bytes = b"", allowed: tuple[int, ...] = (200,)
    ) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(self._timeout_s):
                status, answer = await self._exchange(method, path, body)
        except TimeoutError as error:
            raise TierServerError(self.url, f"no answer in {self._timeout_s:g} s") from error
        except EngineError as error:
            raise TierServerError(self.url, _problem(error)) from error
        if status not in allowed:
            problem = f"{method} {path} was answered with status {status}"
            raise TierServerError(self.url, problem)
        return status, answer

    async def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        response = await self._upstream.send(method, path, headers=_JSON, body=body)
        try:
            return response.status, await response.read()
        finally:
            response.close()


def _problem(error: EngineError) -> str:
    """The cause alone: the pool's errors speak of an engine."""
    return str(getattr(error, "problem", "")) or "it was silent for too long"
