"""Windows of live traffic, with and without a batch, one after the other, on one engine.

A first token's time is counted twice: as the client saw it, on whatever machine this is, and by the
engine's prefill clock over what came to it when. The latter decides.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import tokenizers

from bench.beside.workload import (
    SPLIT_TOKENS,
    Live,
    Shape,
    batch_file,
    live_requests,
    texts,
    warm_bodies,
)
from bench.micro.words import sentences
from bench.routing.contenders import Contender, running_contender
from bench.routing.replicas import Answered, read_answered, running_engines
from bench.soak.http import HttpClient, Reply
from bench.soak.model_folder import write_model_folder

_CHAT = "/v1/chat/completions"
_UNDER_WAY = ("validating", "in_progress", "cancelling")
_SETTLE_S = 2.0
_NAME = "foreword"
_END_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured; an arm is the lines that a gateway lets be answered beside others."""

    rounds: int
    seconds: float
    prefill_tokens_per_s: float
    pool_tokens: int
    arms: tuple[int, ...] = (0, 1, 8)


def measure(plan: Plan, shape: Shape, folder: Path, keep: Callable[[dict[str, Any]], None]) -> None:
    """Every arm in every round, in another order each time; `keep` gets each window's record."""
    model = write_model_folder(folder / "model")
    text = texts(_characters_a_token(model))
    with ExitStack() as stack:
        (engine,) = stack.enter_context(
            running_engines(
                1,
                folder / "engine",
                model,
                pool_tokens=plan.pool_tokens,
                prefill_tokens_per_s=plan.prefill_tokens_per_s,
                speedup=1.0,
            )
        )
        ports = {arm: stack.enter_context(_gateway(arm, engine, folder)) for arm in plan.arms}
        warm = list(warm_bodies(shape, text))
        for number in range(plan.rounds):
            order = list(plan.arms)
            random.Random(number).shuffle(order)
            for arm in order:
                nonce = f"{number}/{arm}"
                live = live_requests(
                    shape, seconds=plan.seconds, seed=number, nonce=nonce, text=text
                )
                lines = batch_file(shape, seed=number * 10 + arm, text=text) if arm else None
                asyncio.run(_all_of_them(ports[arm], warm))
                window = asyncio.run(_window(ports[arm], engine, live, lines, plan))
                keep({"round": number, "beside": arm, **window})


def clocked(
    answered: Sequence[Answered], prefill_tokens_per_s: float
) -> Iterator[tuple[bool, float]]:
    """For each request whether it is a live one, and when its prefill was done, in seconds after it
    came: the engine computes one after the other."""
    free_at = 0.0
    for each in answered:
        started = max(each.submitted_at, free_at)
        free_at = started + (each.prompt_tokens - each.cached_tokens) / prefill_tokens_per_s
        yield each.prompt_tokens < SPLIT_TOKENS, free_at - each.submitted_at


@contextmanager
def _gateway(arm: int, engine: int, folder: Path) -> Iterator[int]:
    """The port of a gateway that lets so many lines of batches be answered beside others."""
    home = folder / f"beside-{arm}"
    home.mkdir(parents=True)
    (home / "foreword.toml").write_text(f"[batches]\nbeside = {arm}\n")
    # One secret, so that what one of them had computed the others find.
    (home / _NAME / "home").mkdir(parents=True, mode=0o700)
    key = home / _NAME / "home" / "hmac.key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    contender = Contender(
        name=_NAME, python=Path(sys.executable), policy="least-ttft", ready="/readyz"
    )
    with running_contender(contender, [engine], home) as running:
        yield running.ports[0]


async def _window(
    port: int, engine: int, live: Sequence[Live], lines: bytes | None, plan: Plan
) -> dict[str, Any]:
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}/v1", trust_env=False, timeout=_END_S
    ) as client:
        batch = None if lines is None else await _begin(client, lines)
        await asyncio.sleep(_SETTLE_S)
        began = time.monotonic()
        replies = await _drive(port, live, began)
        ended = time.monotonic()
        answered = await read_answered(engine, since=began)
        if batch is not None:
            await _end(client, batch)
    rows = [each for each in answered if each.submitted_at <= ended]
    every = list(clocked(rows, plan.prefill_tokens_per_s))
    good = [r.first_s for r in replies if r.status == 200 and r.complete and r.first_s is not None]
    return {
        "requests": len(replies),
        "failed": len(replies) - len(good),
        "lines": sum(not is_live for is_live, _ in every),
        "ttft_s": [round(s, 4) for is_live, s in every if is_live],
        "client_ttft_s": [round(s, 4) for s in good],
        "answered": [asdict(each) | {"submitted_at": each.submitted_at - began} for each in rows],
    }


async def _drive(port: int, live: Sequence[Live], began: float) -> list[Reply]:
    client = HttpClient("127.0.0.1", port)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = []
            for each in live:
                await asyncio.sleep(max(0.0, began + each.at_s - time.monotonic()))
                tasks.append(group.create_task(client.send("POST", _CHAT, each.body)))
    finally:
        client.close()
    return [task.result() for task in tasks]


async def _all_of_them(port: int, bodies: Sequence[bytes]) -> None:
    client = HttpClient("127.0.0.1", port)
    for body in bodies:
        await client.send("POST", _CHAT, body)
    client.close()


async def _begin(client: httpx.AsyncClient, lines: bytes) -> str:
    """The id of a batch of which lines are answered."""
    file = await client.post(
        "/files", files={"file": ("lines.jsonl", lines)}, data={"purpose": "batch"}
    )
    asked = {"input_file_id": file.json()["id"], "endpoint": _CHAT, "completion_window": "24h"}
    batch = str((await client.post("/batches", json=asked)).json()["id"])
    deadline = time.monotonic() + _END_S
    while (await _state(client, batch))["request_counts"]["completed"] == 0:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing of {batch} was answered")
        await asyncio.sleep(0.1)
    return batch


async def _end(client: httpx.AsyncClient, batch: str) -> None:
    await client.post(f"/batches/{batch}/cancel")
    deadline = time.monotonic() + _END_S
    while (await _state(client, batch))["status"] in _UNDER_WAY:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{batch} did not end")
        await asyncio.sleep(0.1)


async def _state(client: httpx.AsyncClient, batch: str) -> dict[str, Any]:
    state: dict[str, Any] = (await client.get(f"/batches/{batch}")).json()
    return state


def _characters_a_token(model: Path) -> float:
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    sample = sentences(random.Random(0), 20_000)
    return len(sample) / len(tokenizer.encode(sample).ids)
