"""Real engines behind real routers: agents and readers, each sending when it was answered."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import orjson

from bench.errors import GatewayAnswerError
from bench.rag_cag.stacks import UpOptions, running_up
from bench.routing.contenders import Contender, Running, running_contender
from bench.routing.sessions import Messages, Sizes, agent_loops, reader_loops
from bench.soak.http import HttpClient, Reply
from cache.engine_metrics import EngineDelta, EngineSnapshot, delta, parse_engine_metrics

Row = dict[str, Any]

_CHAT = "/v1/chat/completions"
_FLUSH_S = 30.0
_MAX_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RealOutcome:
    """Figures of one router in one round; seconds as the client saw them.

    Attributes:
        hit_rate: cached tokens over prompt tokens, both as the engines counted them.
        computed_tokens: the rest.
        imbalance: prompt tokens of the busiest engine over the mean.
        total_s: from the first request to the last answer.
    """

    router: str
    round: int
    requests: int
    failed: int
    prompt_tokens: int
    computed_tokens: int
    hit_rate: float
    imbalance: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p95_s: float
    total_s: float


def real_rounds(
    options: UpOptions,
    compared: Sequence[Contender],
    sizes: Sizes,
    *,
    rounds: int,
    tell: Callable[[Row], None],
) -> list[Row]:
    """Start engines once, and every router before them in each round.

    Raises:
        BenchError: one of them didn't start, or didn't answer.
    """
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="foreword-routing-") as made,
        running_up(options, Path(made) / "stack") as stack,
    ):
        ports = [int(url.rpartition(":")[2]) for url in stack.engine_urls]
        named = [
            replace(c, model=stack.model or c.model if c.module else "default") for c in compared
        ]
        # Round 0 warms the engines up, and isn't counted.
        for number in range(rounds + 1):
            for contender in named if number else named[1:2]:
                place = Path(made) / f"round-{number}"
                with running_contender(contender, ports, place) as running:
                    row = asdict(drive_real(running, sizes, seed=number, number=number))
                tell(row)
                rows += [row] if number else []
    return rows


def drive_real(running: Running, sizes: Sizes, *, seed: int, number: int) -> RealOutcome:
    """One round. The engines' caches are emptied before.

    Raises:
        GatewayAnswerError: no request was answered.
    """
    for port in running.engine_ports:
        _flush(port)
    before = [_counted(port) for port in running.engine_ports]
    loops = agent_loops(sizes, seed) + reader_loops(sizes, seed)
    replies, total_s = asyncio.run(_drive(running, loops))
    deltas = [
        delta(old, _counted(port)) for old, port in zip(before, running.engine_ports, strict=True)
    ]
    return _outcome(running.contender.name, number, replies, total_s, deltas)


def _outcome(
    router: str,
    number: int,
    replies: Sequence[Reply],
    total_s: float,
    deltas: Sequence[EngineDelta],
) -> RealOutcome:
    good = [r.first_s for r in replies if r.status == 200 and r.complete and r.first_s is not None]
    if not good:
        raise GatewayAnswerError(router, f"none of {len(replies)} requests was answered")
    ttfts_s = sorted(good)
    prompts = [each.prompt_tokens for each in deltas]
    cached = sum(series.tokens for each in deltas for series in each.cached)
    return RealOutcome(
        router=router,
        round=number,
        requests=len(replies),
        failed=len(replies) - len(good),
        prompt_tokens=sum(prompts),
        computed_tokens=sum(prompts) - cached,
        hit_rate=cached / sum(prompts),
        imbalance=max(prompts) * len(prompts) / sum(prompts),
        ttft_mean_s=fmean(ttfts_s),
        ttft_p50_s=ttfts_s[len(ttfts_s) // 2],
        ttft_p95_s=ttfts_s[int(len(ttfts_s) * 0.95)],
        total_s=total_s,
    )


async def _drive(
    running: Running, loops: Sequence[Sequence[Messages]]
) -> tuple[list[Reply], float]:
    client = HttpClient("127.0.0.1", running.ports[0])
    clock = asyncio.get_running_loop()
    began = clock.time()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_follow(client, running.contender, loop)) for loop in loops]
    finally:
        client.close()
    return [reply for task in tasks for reply in task.result()], clock.time() - began


async def _follow(
    client: HttpClient, contender: Contender, prompts: Sequence[Messages]
) -> list[Reply]:
    """One agent or reader: the next prompt when the last one was answered."""
    return [await _ask(client, contender, prompt) for prompt in prompts]


async def _ask(client: HttpClient, contender: Contender, messages: Messages) -> Reply:
    opening = [{"role": "system", "content": contender.opening}] if contender.opening else []
    body = {
        "model": contender.model,
        "messages": [*opening, *messages],
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
        "stream": True,
    }
    try:
        return await client.send("POST", _CHAT, orjson.dumps(body))
    except (TimeoutError, OSError):
        return Reply(status=0, body=b"", first_s=None, total_s=0.0, complete=False)


def _flush(port: int) -> None:
    """Empty an engine's cache; it refuses while it works."""
    transport = httpx.HTTPTransport(retries=3)
    with httpx.Client(transport=transport, timeout=_FLUSH_S, trust_env=False) as client:
        for _ in range(int(_FLUSH_S)):
            if client.post(f"http://127.0.0.1:{port}/flush_cache").is_success:
                return
    raise GatewayAnswerError(f"http://127.0.0.1:{port}", "its cache can't be emptied")


def _counted(port: int) -> EngineSnapshot:
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30, trust_env=False)
    return parse_engine_metrics(answer.raise_for_status().text, at=datetime.now(UTC))
