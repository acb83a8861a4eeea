"""A trace sent through real routers to simulated engines over HTTP, at accelerated time."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, cycle
from statistics import fmean

import orjson

from bench.routing.contenders import Contender, Running
from bench.routing.replicas import Answered, read_answered
from bench.routing.simulate import WINDOW_S
from bench.routing.traces import BLOCK_TOKENS, Arrival
from bench.soak.http import HttpClient, Reply

# A block of 512 tokens is sent as so many: the rest of the proportions stay.
TOKENS_A_BLOCK = 16
_OUTPUT_SCALE = 16
_CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """What is sent.

    Attributes:
        prefill_tokens_per_s: of one engine, in the trace's time and in tokens as they are sent.
        speedup: seconds of the trace in a real one.
    """

    num_replicas: int
    requests: int
    prefill_tokens_per_s: float
    speedup: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOutcome:
    """Figures of one router; times in seconds of the trace.

    Where each request went and what it found there is as it happened; hits, imbalance and TTFT are
    the engines' prefill clocks over that, so that a busy machine can't decide. The times that the
    client saw are beside them.

    Attributes:
        statuses: HTTP status → answers; 0: none came.
        late_mean_s: how much later than in the trace requests came to the engines.
    """

    router: str
    requests: int
    failed: int
    statuses: dict[int, int]
    prompt_tokens: int
    hit_rate: float
    imbalance: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    client_ttft_mean_s: float | None
    late_mean_s: float


def prompt_text(arrival: Arrival) -> str:
    """The prompt's blocks as digits, each a token of its own: equal blocks, equal text."""
    whole, rest = divmod(arrival.tokens, BLOCK_TOKENS)
    text = "".join(f"{block:0{TOKENS_A_BLOCK}d}" for block in arrival.blocks[:whole])
    if rest and whole < len(arrival.blocks):
        part = max(1, rest * TOKENS_A_BLOCK // BLOCK_TOKENS)
        text += f"{arrival.blocks[whole]:0{TOKENS_A_BLOCK}d}"[-part:]
    return text


def body_of(arrival: Arrival, contender: Contender) -> bytes:
    """The chat request; what Foreword's own template begins with is sent to the others."""
    messages = [{"role": "user", "content": prompt_text(arrival)}]
    if contender.opening:
        messages.insert(0, {"role": "system", "content": contender.opening})
    return orjson.dumps(
        {
            "model": contender.model,
            "messages": messages,
            "max_tokens": max(1, arrival.output_tokens // _OUTPUT_SCALE),
            "stream": True,
        }
    )


async def drive(arrivals: Sequence[Arrival], running: Running, options: LiveOptions) -> LiveOutcome:
    """Send each request when it is due, whatever became of those before it."""
    clients = [HttpClient("127.0.0.1", port) for port in running.ports]
    bodies = [body_of(arrival, running.contender) for arrival in arrivals]
    began = time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[Reply]] = []
            for arrival, body, client in zip(arrivals, bodies, cycle(clients), strict=False):
                due = began + arrival.at_s / options.speedup
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                tasks.append(group.create_task(_ask(client, body)))
    finally:
        for client in clients:
            client.close()
    replies = [task.result() for task in tasks]
    good = [r.first_s for r in replies if r.status == 200 and r.complete and r.first_s is not None]
    answered = await asyncio.gather(
        *(read_answered(port, since=began) for port in running.engine_ports)
    )
    clocked = [
        [
            replace(each, submitted_at=(each.submitted_at - began) * options.speedup)
            for each in replica
        ]
        for replica in answered
    ]
    ttfts_s = sorted(chain.from_iterable(map(partial(_ttfts_s, options), clocked)))
    every = list(chain.from_iterable(clocked))
    prompt_tokens = sum(each.prompt_tokens for each in every)
    late = fmean(e.submitted_at for e in every) - fmean(a.at_s for a in arrivals)
    return LiveOutcome(
        router=running.contender.name,
        requests=len(replies),
        failed=len(replies) - len(good),
        statuses=dict(Counter(reply.status for reply in replies)),
        prompt_tokens=prompt_tokens,
        hit_rate=sum(each.cached_tokens for each in every) / prompt_tokens,
        imbalance=_worst_imbalance(clocked),
        ttft_mean_s=fmean(ttfts_s),
        ttft_p50_s=ttfts_s[len(ttfts_s) // 2],
        ttft_p99_s=ttfts_s[int(len(ttfts_s) * 0.99)],
        client_ttft_mean_s=fmean(good) * options.speedup if good else None,
        late_mean_s=late,
    )


async def _ask(client: HttpClient, body: bytes) -> Reply:
    """One request; what doesn't come is a failure of the router's, and the others go on."""
    try:
        return await client.send("POST", _CHAT, body)
    except (TimeoutError, OSError):
        return Reply(status=0, body=b"", first_s=None, total_s=0.0, complete=False)


def _ttfts_s(options: LiveOptions, replica: Sequence[Answered]) -> Iterator[float]:
    """Queueing and prefill of one engine's requests, computed one after the other."""
    free_at_s = 0.0
    for each in replica:
        computed = each.prompt_tokens - each.cached_tokens
        started_s = max(each.submitted_at, free_at_s)
        free_at_s = started_s + computed / options.prefill_tokens_per_s
        yield free_at_s - each.submitted_at


def _worst_imbalance(clocked: Sequence[Sequence[Answered]]) -> float:
    """Prompt tokens of the busiest replica over the mean, in the worst whole window of 60 s."""
    windows: dict[int, list[int]] = {}
    for number, replica in enumerate(clocked):
        for each in replica:
            window = windows.setdefault(int(each.submitted_at // WINDOW_S), [0] * len(clocked))
            window[number] += each.prompt_tokens
    whole = [windows[key] for key in sorted(windows)][1:-1]
    return max((max(w) * len(w) / sum(w) for w in whole), default=1.0)
