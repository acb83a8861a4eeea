"""The second endpoint: copies go there over connections of their own."""

import asyncio
import time
from dataclasses import dataclass, field

from app.engine import CHAT_PATH
from app.errors import EngineError, EngineProtocolError, EngineTimeoutError
from app.shadow.copies import ShadowCopy
from app.shadow.hearing import Heard, ShadowFailure
from app.upstream import Headers, Timeouts, Upstream
from cache.usage import CacheUsage
from prompts import Message

# Says to a Foreword that this is a copy; one that shadows, too, doesn't copy it again.
MARK = b"x-foreword-shadow"

_CONNECT_S = 5.0
_SLICE_BYTES = 2**14


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowAnswer:
    """What the target said; times in seconds from the sending."""

    ttft_s: float | None
    e2e_s: float
    usage: CacheUsage
    message: Message = field(repr=False)


class Target:
    """The endpoint.

    Args:
        timeout_s: the longest that a copy may take from its sending to its answer's end.
        most: requests that it gets at a time.
    """

    def __init__(self, url: str, *, api_key: str | None, timeout_s: float, most: int) -> None:
        """Raises ValueError: not an http or https URL with a host."""
        self.url = url.rstrip("/")
        timeouts = Timeouts(
            connect_s=min(_CONNECT_S, timeout_s), first_byte_s=timeout_s, between_bytes_s=timeout_s
        )
        base = self.url.removesuffix("/v1")
        self._upstream = Upstream(base, timeouts=timeouts, max_connections=most)
        self._timeout_s = timeout_s
        headers: Headers = ((b"content-type", b"application/json"), (MARK, b"1"))
        key = () if api_key is None else ((b"authorization", b"Bearer " + api_key.encode()),)
        self._headers: Headers = (*headers, *key)

    async def ask(self, copy: ShadowCopy) -> ShadowAnswer:
        """Send a copy and hear the answer out.

        Raises:
            ShadowFailure: there was none.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._ask(copy)
        except (TimeoutError, EngineTimeoutError) as error:
            raise ShadowFailure("timeout") from error
        except EngineProtocolError as error:
            raise ShadowFailure("malformed") from error
        except EngineError as error:
            raise ShadowFailure("unreachable") from error

    async def _ask(self, copy: ShadowCopy) -> ShadowAnswer:
        heard = Heard(streams=copy.streams, expected_tokens=copy.live.output_tokens)
        sent, ttft_s = time.perf_counter(), None
        response = await self._upstream.send(
            "POST", CHAT_PATH, headers=self._headers, body=copy.body
        )
        try:
            if response.status != 200:  # a redirect is not followed either
                reason = "server_error" if response.status >= 500 else "refused"
                raise ShadowFailure(reason, status=response.status)
            while not heard.ended and (data := await response.more()) is not None:
                for start in range(0, len(data), _SLICE_BYTES):
                    if heard.feed(data[start : start + _SLICE_BYTES]) and ttft_s is None:
                        ttft_s = time.perf_counter() - sent
                    await asyncio.sleep(0)  # a flood holds no live request up
            e2e_s = time.perf_counter() - sent
            heard.end()
        finally:
            response.close()
        return ShadowAnswer(
            ttft_s=ttft_s, e2e_s=e2e_s, usage=heard.usage(), message=heard.message()
        )

    def close(self) -> None:
        """Drop idle connections."""
        self._upstream.close()
