"""What the gateway adds to a request that has the machine for itself."""

import random
import statistics

import orjson

from bench.micro.words import sentences
from bench.soak.http import HttpClient
from bench.soak.latency import milliseconds, percentile
from bench.soak.traffic import CHAT

_SHARED = sentences(random.Random(11), 1_200)


async def added_latency(
    gateway: HttpClient, simulator: HttpClient, *, pairs: int, seed: int
) -> tuple[float | None, float | None]:
    """(median, 99th percentile) in milliseconds, whole answers of one token, taking turns.

    The simulator renders its own prompt when it is asked directly, and is given token ids by the
    gateway: the difference is a little too small by that.
    """
    source = random.Random(seed)
    through: list[float] = []
    direct: list[float] = []
    for _ in range(pairs):
        question = {"role": "user", "content": sentences(source, 80)}
        messages = [{"role": "system", "content": _SHARED}, question]
        for client, model, times in ((gateway, "default", through), (simulator, "soak", direct)):
            body = {"model": model, "messages": messages, "max_tokens": 1}
            times.append((await client.send("POST", CHAT, orjson.dumps(body))).total_s)
    if not pairs:
        return None, None
    floor = statistics.median(direct)
    return tuple(  # type: ignore[return-value]
        milliseconds((percentile(through, share) or 0) - floor) for share in (0.5, 0.99)
    )
