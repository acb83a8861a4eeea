"""Simulated engines as processes, and the requests that they have answered."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import environ
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from bench.child_process import running_child
from bench.errors import StackStartError
from bench.soak.http import HttpClient

MODEL = "routed"
PAGE_TOKENS = 16
_CONTEXT_TOKENS = 8192
_CHUNK_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request as its engine saw it; `submitted_at` is of the machine's monotonic clock."""

    submitted_at: float
    prompt_tokens: int
    cached_tokens: int


@contextmanager
def running_engines(
    num_replicas: int,
    folder: Path,
    model: Path,
    *,
    pool_tokens: int,
    prefill_tokens_per_s: float,
    speedup: float,
    events: bool = True,
) -> Iterator[list[int]]:
    """The ports of engines, with KV events or without.

    Raises:
        StackStartError: one of them did not start.
    """
    settings = {
        "--model-path": model,
        "--served-model-name": MODEL,
        "--port": 0,
        "--page-size": PAGE_TOKENS,
        "--max-total-tokens": pool_tokens,
        "--context-length": _CONTEXT_TOKENS,
        "--max-running-requests": 512,
        "--chunked-prefill-size": _CHUNK_TOKENS,
        "--prefill-tokens-per-s": prefill_tokens_per_s,
        "--speedup": speedup,
    }
    if events:
        settings["--kv-events-endpoint"] = "tcp://127.0.0.1:0"
        settings["--kv-events-replay-endpoint"] = "tcp://127.0.0.1:0"
    command = [sys.executable, "-m", "bench.engine_sim"]
    command += [str(part) for pair in settings.items() for part in pair]
    with ExitStack() as stack:
        names = [f"engine-{number}" for number in range(num_replicas)]
        processes = [
            stack.enter_context(running_child(command, folder, name, environ)) for name in names
        ]
        ports = []
        for name, process in zip(names, processes, strict=True):
            assert process.stdout is not None
            port = urlsplit(process.stdout.readline().strip()).port
            if port is None:
                raise StackStartError(f"the simulated engine {name}", folder / f"{name}.log")
            ports.append(port)
        yield ports


async def read_answered(port: int, *, since: float) -> list[Answered]:
    """The requests that came to one engine since a time, in the order in which they came."""
    client = HttpClient("127.0.0.1", port)
    try:
        reply = await client.send("GET", "/simulator/requests")
    finally:
        client.close()
    every = (Answered(**row) for row in orjson.loads(reply.body)["requests"])
    return sorted((a for a in every if a.submitted_at >= since), key=lambda a: a.submitted_at)
