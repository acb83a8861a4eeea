"""Steady mixed traffic of several tenants, for as long as a block lasts."""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from bench.faults.outcomes import HUNG_S, Asked, Kind, Outcome, read_body
from bench.micro.words import sentences

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
_LONGEST_PAUSE_S = 0.2
_SAID = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who asks, and what of."""

    name: str
    key: str
    store: str


@dataclass(slots=True)
class _Flight:
    """A request under way; `spoke` when some of its answer has come."""

    kind: Kind
    began: float
    spoke: bool = False


class Traffic:
    """Clients that ask one after the other.

    Attributes:
        asked: what has ended, in that order.
    """

    def __init__(
        self, url: str, tenants: list[Tenant], *, clients: int, most_tokens: int, seed: int = 1
    ) -> None:
        self.asked: list[Asked] = []
        self._url = url
        self._tenants = tenants
        self._clients = clients
        self._most_tokens = most_tokens
        self._random = random.Random(seed)
        self._under_way: dict[int, _Flight] = {}
        self._number = 0
        self._going = True

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator["Traffic"]:
        """Ask until the block ends; then all that is under way has ended too."""
        limits = httpx.Limits(max_connections=None)
        client = httpx.AsyncClient(base_url=self._url, timeout=None, limits=limits, trust_env=False)
        async with client, asyncio.TaskGroup() as tasks:
            for _ in range(self._clients):
                tasks.create_task(self._ask_on(client))
            try:
                yield self
            finally:
                self._going = False

    def under_way(self) -> dict[str, int]:
        """Requests that have begun to be answered, and those that wait."""
        flights = self._under_way.values()
        spoke = sum(flight.spoke and flight.kind.streams for flight in flights)
        return {"streaming": spoke, "waiting": len(flights) - spoke}

    def oldest(self) -> float:
        """When the request that is longest under way began; infinite where none is."""
        return min((flight.began for flight in self._under_way.values()), default=math.inf)

    async def _ask_on(self, client: httpx.AsyncClient) -> None:
        kinds = list(Kind)
        while self._going:
            tenant = self._tenants[self._random.randrange(len(self._tenants))]
            (kind,) = self._random.choices(kinds, weights=(35, 40, 10, 15))
            self.asked.append(await self._one(client, kind, tenant))
            await asyncio.sleep(self._random.random() * _LONGEST_PAUSE_S)

    async def _one(self, client: httpx.AsyncClient, kind: Kind, tenant: Tenant) -> Asked:
        self._number += 1
        began = time.monotonic()
        number, flight = self._number, _Flight(kind, began)
        self._under_way[number] = flight
        status, body, request_id, problem = 0, bytearray(), None, ""
        outcome: Outcome | None = None
        heard, silent_s = began, 0.0
        try:
            async with (
                asyncio.timeout(HUNG_S) as patience,
                client.stream(
                    "POST",
                    CHAT if kind in (Kind.CHAT, Kind.CHAT_STREAM) else RESPONSES,
                    json=self._body(kind, tenant, number),
                    headers={"authorization": f"Bearer {tenant.key}"},
                ) as response,
            ):
                status, request_id = response.status_code, response.headers.get("x-request-id")
                async for piece in response.aiter_bytes():
                    flight.spoke = True
                    body += piece
                    now = time.monotonic()
                    heard, silent_s = now, max(silent_s, now - heard)
                    patience.reschedule(asyncio.get_running_loop().time() + HUNG_S)
        except TimeoutError:
            outcome = Outcome.HUNG
        except httpx.HTTPError as error:
            outcome, problem = Outcome.LOST, repr(error)
        finally:
            del self._under_way[number]
        read = None if outcome is not None else read_body(kind, status, bytes(body))
        ended = read.outcome if read is not None else outcome
        assert ended is not None
        return Asked(
            kind=kind,
            tenant=tenant.name,
            began=began,
            ended=time.monotonic(),
            outcome=ended,
            status=status,
            code=None if read is None else read.code,
            request_id=request_id,
            silent_s=max(silent_s, time.monotonic() - heard),
            said=""
            if ended is Outcome.ANSWERED
            else problem or bytes(body)[-_SAID:].decode(errors="replace"),
        )

    def _body(self, kind: Kind, tenant: Tenant, number: int) -> Mapping[str, Any]:
        question = f"{number}: {sentences(self._random, 200)}"
        if kind in (Kind.CHAT, Kind.CHAT_STREAM):
            messages = [
                {"role": "system", "content": f"You answer {tenant.name}. " * 20},
                {"role": "user", "content": question},
            ]
            tokens = self._random.randint(self._most_tokens // 3, self._most_tokens)
            return {
                "model": "default",
                "messages": messages,
                "max_tokens": tokens,
                "stream": kind.streams,
            }
        search = {"type": "file_search", "vector_store_ids": [tenant.store]}
        return {
            "model": "default",
            "input": question,
            "tools": [search],
            "max_output_tokens": self._most_tokens,
            "stream": kind.streams,
            "store": False,
        }
