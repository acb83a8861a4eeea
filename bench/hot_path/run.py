"""Rounds of requests at each gateway in turn, and what each cost."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from bench.errors import SoakError
from bench.hot_path.cpu import cpu_ns
from bench.hot_path.processes import Gateway
from bench.hot_path.workload import Ask, Shape, Workload
from bench.soak.http import HttpClient
from bench.soak.processes import wait_until_ready

_CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is asked."""

    shapes: Sequence[Shape]
    requests: int
    rounds: int
    connections: int


async def measure(
    gateways: Sequence[Gateway], plan: Plan
) -> Mapping[tuple[str, Shape], list[float]]:
    """Microseconds of CPU a request, by gateway and shape, one figure a round.

    A first round, while caches fill, is left out. Whoever goes first changes from round to round.

    Raises:
        SoakError: an answer that isn't 200 or isn't whole.
    """
    clients = {gateway.name: HttpClient("127.0.0.1", gateway.port) for gateway in gateways}
    for gateway in gateways:
        await wait_until_ready(clients[gateway.name], f"the gateway {gateway.name}")
    costs: dict[tuple[str, Shape], list[float]] = {}
    for number in range(plan.rounds + 1):
        for shape in plan.shapes:
            for gateway in sorted(gateways, key=lambda g: g.name, reverse=bool(number % 2)):
                cost = await _round(gateway, clients[gateway.name], plan, Workload(shape, number))
                if number:
                    costs.setdefault((gateway.name, shape), []).append(cost)
    for client in clients.values():
        client.close()
    return costs


async def _round(gateway: Gateway, client: HttpClient, plan: Plan, workload: Workload) -> float:
    client.close()  # connections that were idle while others had their turn may be closing
    asks = [workload.next() for _ in range(plan.requests)]
    if workload.shape is Shape.FOLLOW_UP:
        answers = await _ask_all(client, asks, plan.connections)
        asks = [ask.follow_up(_said(answer)) for ask, answer in zip(asks, answers, strict=True)]
    bodies = [ask.raw for ask in asks]
    before = cpu_ns(gateway.pid)
    await _send_all(client, bodies, plan.connections)
    return (cpu_ns(gateway.pid) - before) / len(bodies) / 1_000


async def _ask_all(client: HttpClient, asks: Sequence[Ask], connections: int) -> list[bytes]:
    return await _send_all(client, [ask.raw for ask in asks], connections)


async def _send_all(client: HttpClient, bodies: Sequence[bytes], connections: int) -> list[bytes]:
    answers = [b""] * len(bodies)
    left = iter(range(len(bodies)))

    async def work() -> None:
        for place in left:
            reply = await client.send("POST", _CHAT, bodies[place])
            if reply.status != 200 or not reply.complete or b'"error"' in reply.body[:20]:
                raise SoakError("the gateway", f"{reply.status}: {reply.body[:300]!r}")
            answers[place] = reply.body

    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(work())
    return answers


def _said(answer: bytes) -> str:
    return str(orjson.loads(answer)["choices"][0]["message"]["content"])
