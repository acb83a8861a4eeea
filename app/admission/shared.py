"""Limits that several gateways keep together, in Redis.

A gateway doesn't ask Redis for each request: it takes half a second's worth out of the shared
bucket at a time and spends that by itself. So a limit is never passed by all gateways together, and
what is used late by one of them is at most half a second's worth.

Without Redis each gateway goes on with its own counts. No request ever fails or waits for it beyond
`_TIMEOUT_S`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import anyio
import redis.asyncio
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

_TIMEOUT_S = 0.25
_EXCHANGE_S = 0.25
_AGAIN_S = 1.0
_LIFETIME_S = 5
# A gateway's message stays small: the tenants that used most.
_MOST_TENANTS = 200
_AHEAD_S = 0.5
_LUA = Path(__file__).parent / "lua"


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """What the other gateways told last: their requests, and what tenants were given lately."""

    gateways: int = 0
    in_flight: int = 0
    given: Mapping[str, int] = field(default_factory=dict)


class SharedLimits:
    """Redis, as far as it is there.

    Args:
        url: `redis://…`; a password in it is never shown.
    """

    def __init__(self, url: str, *, prefix: str = "foreword:admission") -> None:
        self._redis = redis.asyncio.Redis.from_url(
            url,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            max_connections=64,
        )
        self._prefix = prefix
        self._gateway = uuid4().hex
        self._take = self._script("take")
        self._hold = self._script("hold")
        self._exchange = self._script("exchange")
        self._credit: dict[tuple[str, str], float] = {}
        self._log = structlog.get_logger()
        self.up = True
        self.failures = 0
        self.others = Others()

    async def take(self, tenant: str, what: str, amount: int, *, limit: int) -> float | None:
        """Take from a bucket of all gateways.

        Returns:
            None if it was taken, or can't be known; else seconds until it could be.
        """
        key = tenant, what
        credit = self._credit.get(key, 0.0)
        if amount <= credit:
            self._credit[key] = credit - amount
            return None
        if not self.up:
            return None
        need = amount - credit
        self._credit[key] = 0.0  # whoever comes meanwhile takes for himself
        want = need + int(limit / 60 * _AHEAD_S)
        try:
            granted, level = await self._take(
                keys=[f"{self._prefix}:bucket:{what}:{tenant}"], args=[limit, need, want]
            )
        except (RedisError, OSError) as error:
            self._failed(error)
            return None
        if granted == "":
            self._credit[key] = self._credit.get(key, 0.0) + credit
            return max(0.0, (need - float(level)) * 60 / limit)
        self._credit[key] = self._credit.get(key, 0.0) + float(granted) - need
        return None

    def correct(self, tenant: str, what: str, difference: float, *, limit: int) -> None:
        """So much more was used; negative: less. The next one that takes pays, or has it."""
        key = tenant, what
        credit = self._credit.get(key, 0.0) - difference
        self._credit[key] = max(-float(limit), min(credit, float(limit)))

    async def hold(self, tenant: str, count: int, *, limit: int) -> bool:
        """Whether one more request of a tenant may begin, with which this gateway has `count`."""
        if not self.up:
            return True
        try:
            others = await self._hold(
                keys=[f"{self._prefix}:under-way:{tenant}"],
                args=[self._gateway, count, limit, _LIFETIME_S],
            )
        except (RedisError, OSError) as error:
            self._failed(error)
            return True
        return limit == 0 or int(others) + count <= limit

    async def exchange(self, in_flight: int, given: Mapping[str, int]) -> None:
        """Tell the others, and hear what they told; Redis that was away is found again here.

        Args:
            given: tokens that tenants' requests were let in with, since the last time.
        """
        most = dict(sorted(given.items(), key=lambda item: -item[1])[:_MOST_TENANTS])
        message = json.dumps({"in_flight": in_flight, "given": most})
        try:
            told = await self._exchange(
                keys=[f"{self._prefix}:gateways"], args=[self._gateway, message, _LIFETIME_S]
            )
        except (RedisError, OSError) as error:
            self._failed(error)
            return
        if not self.up:
            self._log.info("redis_back")
        self.up = True
        self.others = _others(told)

    async def give_back(self, limits: Mapping[tuple[str, str], int]) -> None:
        """Put into the shared buckets what was taken out of them and isn't needed now."""
        # A tenant's first request may come while one bucket is given back.
        for key, limit in tuple(limits.items()):
            tenant, what = key
            spare = self._credit.get(key, 0.0) - limit / 60 * _AHEAD_S
            if spare >= 1 and self.up:
                self._credit[key] -= spare
                bucket = f"{self._prefix}:bucket:{what}:{tenant}"
                try:
                    await self._take(keys=[bucket], args=[limit, -spare, -spare])
                except (RedisError, OSError) as error:
                    self._failed(error)

    @property
    def pause_s(self) -> float:
        """Until the next exchange is due."""
        return _EXCHANGE_S if self.up else _AGAIN_S

    async def close(self) -> None:
        """Hang up."""
        with anyio.move_on_after(_TIMEOUT_S):
            await self._redis.aclose()

    def _script(self, name: str) -> AsyncScript:
        return self._redis.register_script((_LUA / f"{name}.lua").read_text("utf-8"))

    def _failed(self, error: Exception) -> None:
        """Each gateway for itself, until an exchange succeeds."""
        self.failures += 1
        if self.up:
            self._log.warning("redis_lost", problem=type(error).__name__)
        self.up = False
        self.others = Others()
        self._credit.clear()


def _others(told: list[str]) -> Others:
    given: dict[str, int] = {}
    in_flight = 0
    for text in told:
        message = json.loads(text)
        in_flight += int(message["in_flight"])
        for tenant, tokens in message["given"].items():
            given[tenant] = given.get(tenant, 0) + int(tokens)
    return Others(gateways=len(told), in_flight=in_flight, given=given)
