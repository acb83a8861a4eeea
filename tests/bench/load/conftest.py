"""Servers that answer as they are told, and workloads to send them."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.load.run import Plan
from bench.load.validity import Bounds
from bench.run_folder import Load
from bench.workloads import Workload, english_words, make_workload
from bench.workloads.prefix_repetition import PrefixRepetition, prefix_repetition

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="session")
def small() -> Workload:
    """Twelve requests with three prefixes."""
    spec = PrefixRepetition(
        prefix_len=60, suffix_len=10, num_prefixes=3, output_len=4, num_prompts=12
    )
    made = prefix_repetition(spec, english_words(), 1)
    return make_workload("small", made, seed=1, parameters={})


@pytest.fixture
def plan_for(small: Workload, tmp_path: Path) -> Callable[..., Plan]:
    """A plan to send it; fields as they are given."""

    def made(url: str, **fields: object) -> Plan:
        held: dict[str, object] = {
            "url": url,
            "folder": tmp_path / "run",
            "workload": small,
            "load": Load(kind="closed", concurrency=3),
            "bounds": Bounds(max_lag_s=60),  # tests share their machine
        }
        return Plan(**held | fields)  # type: ignore[arg-type]

    return made


@contextmanager
def serving(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server in a thread, whose every connection is handled by `answer`; its port."""
    loop = asyncio.new_event_loop()
    started: list[asyncio.Server] = []

    async def listen() -> None:
        started.append(await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls))

    async def stop() -> None:
        started[0].close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield started[0].sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
