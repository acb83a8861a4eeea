"""Clients that ask, one stretch of requests at a time, and what they saw."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import orjson

from bench.errors import SoakError
from bench.soak.fault_plan import breaks_answers, orders_at
from bench.soak.http import HttpClient, Reply
from bench.soak.workload import Ask, Kind, Workload

CHAT = "/v1/chat/completions"


@dataclass(slots=True, kw_only=True)
class Seen:
    """What clients saw in one stretch.

    Attributes:
        statuses: replies by status; `given up` where we went away, `broken` where a stream ended
            in an error, `lost` where the connection broke.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    first_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)

    def note(self, ask: Ask, reply: Reply) -> None:
        self.statuses[outcome(ask, reply)] += 1
        if reply.status == 200 and reply.first_s is not None and reply.complete:
            self.total_s.append(reply.total_s)
            if ask.body["stream"]:
                self.first_s.append(reply.first_s)


def outcome(ask: Ask, reply: Reply) -> str:
    """One word or status for what became of a request."""
    if reply.status == 0:
        return "lost"
    if not reply.complete:
        return "lost" if ask.give_up_after is None else "given up"
    if reply.status == 200 and ask.body["stream"] and b'data: {"error"' in reply.body[-2_000:]:
        return "broken"
    return str(reply.status)


def answer_text(ask: Ask, reply: Reply) -> str | None:
    """The assistant's text; None where it did not come to its end."""
    if reply.status != 200 or not reply.complete:
        return None
    if not ask.body["stream"]:
        text = orjson.loads(reply.body)["choices"][0]["message"]["content"]
        return str(text) if text else None
    return _streamed_text(reply.body)


def _streamed_text(body: bytes) -> str | None:
    said: list[str] = []
    for line in body.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        part = orjson.loads(line[6:])
        if "error" in part:
            return None
        said += [choice["delta"].get("content") or "" for choice in part["choices"]]
    return "".join(said)


class Traffic:
    """Drives one workload at the gateway; the simulator takes the faults.

    Attributes:
        asked: requests so far.
        broken_on_purpose: faults ordered that make a request fail.
    """

    def __init__(
        self, gateway: HttpClient, simulator: HttpClient, workload: Workload, *, first: int = 0
    ) -> None:
        self.asked = first
        self.broken_on_purpose = 0
        self._gateway = gateway
        self._simulator = simulator
        self._workload = workload

    async def stretch(self, requests: int, *, workers: int, faults: bool = True) -> Seen:
        """So many requests from so many clients; returns when all have ended.

        Raises SoakError: one of them got no answer.
        """
        seen = Seen()
        left = iter(range(requests))

        async def work() -> None:
            for _ in left:
                self.asked += 1
                if faults:
                    await self._order(self.asked)
                await self._one(seen)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(work())
        except* SoakError as hung:
            raise hung.exceptions[0] from None
        return seen

    async def _one(self, seen: Seen) -> None:
        ask = self._workload.next()
        body = orjson.dumps(ask.body)
        reply = await self._gateway.send("POST", CHAT, body, give_up_after=ask.give_up_after)
        seen.note(ask, reply)
        text = answer_text(ask, reply) if ask.kind is Kind.CHAT else None
        self._workload.answered(ask, text)

    async def _order(self, number: int) -> None:
        for order in orders_at(number):
            self.broken_on_purpose += breaks_answers(order)
            await self._simulator.send("POST", "/simulator/faults", orjson.dumps(order))
