"""What the index learns from a (simulated) engine's KV events, over real ZeroMQ sockets."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import msgspec
import pytest
import zmq

from app.engine import KvEventsAddress
from app.kv_events import KvEventFollower, KvEventSource
from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from cache.kv_events import BlockStored
from cache.prefix_index import PrefixIndex
from cache.prefix_match import ReplicaMatch
from tests.app.conditions import becomes
from tests.engines import flush
from tests.gateways import wait_until_subscribed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PAGE = 16
REPLICA = "engine-0"


def ids(seed: int, pages: int = 4) -> list[int]:
    """A prompt that shares no page with one of another seed."""
    return [5 + (i * 7 + seed) % 200 for i in range(pages * PAGE)]


PROMPT = ids(0)


@dataclass
class Watched:
    """An engine, the index that follows it, and the follower."""

    simulator: SimulatorThread
    index: PrefixIndex
    follower: KvEventFollower

    async def ask(self, prompt: list[int] = PROMPT) -> None:
        body = {
            "model": "default", "messages": [{"role": "user", "content": "x"}],
            "input_ids": prompt, "max_tokens": 1, "cache_salt": "salt",
        }  # fmt: skip
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"{self.simulator.url}/v1/chat/completions"
            (await client.post(url, json=body)).raise_for_status()

    async def flush(self) -> None:
        await anyio.to_thread.run_sync(flush, self.simulator.url)

    async def lose_next_batches(self, times: int) -> None:
        fault = {"kind": "lose_events", "times": times}
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"{self.simulator.url}/simulator/faults"
            (await client.post(url, json=fault)).raise_for_status()

    def holds(self, prompt: list[int] = PROMPT) -> ReplicaMatch:
        keys = self.index.keys(prompt)
        match = self.index.match(keys, salt="salt", sent_at=time.monotonic())
        return match.replicas.get(REPLICA, ReplicaMatch())


def endpoints(simulator: SimulatorThread) -> KvEventsAddress:
    publisher = simulator.engine.publisher
    assert publisher is not None
    return KvEventsAddress(events=publisher.endpoint, replay=publisher.replay_endpoint, topic="kv")


@contextmanager
def engine(folder: Path, *, replay: bool = True, **fields: int) -> Iterator[SimulatorThread]:
    events = EventsConfig(replay_endpoint="tcp://127.0.0.1:0" if replay else None, topic="kv")
    config = SimulatorConfig(
        model_path=folder, clock=ClockConfig(speedup=50), events=events, **fields
    )
    with SimulatorThread(config) as simulator:
        yield simulator


@asynccontextmanager
async def watched(
    simulator: SimulatorThread, *, asked_before: bool = False
) -> AsyncIterator[Watched]:
    index = PrefixIndex(page_tokens=PAGE)

    def source() -> KvEventSource:
        return KvEventSource(address=endpoints(simulator), index=index)

    follower = KvEventFollower(replica=REPLICA, source=source)
    made = Watched(simulator, index, follower)
    if asked_before:
        await made.ask()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follower.follow)
            yield made
            tasks.cancel_scope.cancel()
    finally:
        follower.close()


async def test_what_was_there_before_it_subscribed_is_asked_for(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator, asked_before=True) as it:
            assert await becomes(lambda: it.holds().resident == 4)
            assert it.follower.status.unfilled_gaps == 0


async def test_an_engine_that_has_published_nothing_is_known_to_be_empty(
    tokenizer_folder: Path,
) -> None:
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator) as it:
            assert await becomes(lambda: it.holds().resident == 0)
            await it.ask()
            assert await becomes(lambda: it.holds().resident == 4)


async def test_a_flush_and_an_eviction_are_seen(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder, capacity_tokens=12 * PAGE) as simulator:
        async with watched(simulator) as it:
            await it.ask()
            assert await becomes(lambda: it.holds().resident == 4)
            await it.ask(ids(1, pages=8))
            assert await becomes(lambda: it.holds().resident in range(4))
            assert it.holds().left == 4
            await it.flush()
            assert await becomes(lambda: it.holds().resident == 0)


async def test_batches_that_were_lost_are_replayed(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator) as it:
            assert await becomes(lambda: it.holds().resident == 0)
            await it.lose_next_batches(1)
            await it.ask()
            other = ids(1)
            await it.ask(other)
            assert await becomes(lambda: it.holds(other).resident == 4)
            assert it.holds().resident == 4
            assert it.follower.status.unfilled_gaps == 0


async def test_a_loss_that_nothing_follows_is_found_too(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator) as it:
            assert await becomes(lambda: it.holds().resident == 0)
            await it.lose_next_batches(1)
            await it.ask()
            assert await becomes(lambda: it.holds().resident == 4)


async def test_without_replay_a_loss_is_known_to_be_one(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder, replay=False) as simulator:
        async with watched(simulator) as it:
            assert await becomes(lambda: it.follower.status.unfilled_gaps == 1)  # nobody knows
            await anyio.to_thread.run_sync(wait_until_subscribed, simulator.url)
            await it.ask()
            assert await becomes(lambda: it.holds().resident == 4)
            await it.lose_next_batches(1)
            await it.ask(ids(2))
            await it.ask(ids(1))
            assert await becomes(lambda: it.follower.status.unfilled_gaps == 2)
            assert it.holds().resident is None
            assert await becomes(lambda: it.holds(ids(1)).resident == 4)


async def test_a_restarted_engine_holds_nothing(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator) as it:
            for seed in (0, 2, 3):
                await it.ask(ids(seed))
            assert await becomes(lambda: it.holds().resident == 4)
            simulator.stop()
            simulator.start()
            other = ids(1)
            await it.ask(other)
            assert await becomes(lambda: it.holds(other).resident == 4)
            assert it.holds().resident == 0
            assert it.follower.status.restarts == 1


async def test_a_restart_at_the_same_address_is_known_by_its_times(tokenizer_folder: Path) -> None:
    """Its numbers may have come as far as the old ones by the time it is seen again."""
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator) as it:
            await it.ask()
            for seed in (7, 8):
                await it.ask(ids(seed))
            assert await becomes(lambda: it.holds(ids(8)).resident == 4)
            assert it.holds().resident == 4
            address = endpoints(simulator)
            assert address.replay is not None
            fixed = EventsConfig(
                endpoint=address.events, replay_endpoint=address.replay, topic="kv"
            )
            simulator.stop()
            config = SimulatorConfig(
                model_path=tokenizer_folder, clock=ClockConfig(speedup=50), events=fixed
            )
            simulator.config = config
            simulator.start()
            for seed in (1, 2, 3):
                await it.ask(ids(seed))
            assert await becomes(lambda: it.follower.status.restarts == 1)
            assert await becomes(lambda: it.holds(ids(3)).resident == 4)
            assert await becomes(lambda: it.holds(ids(1)).resident == 4)
            assert it.holds().resident == 0
            assert it.follower.status.restarts == 1
            assert it.follower.status.unfilled_gaps == 0, "what an ended engine held is known"


async def test_news_can_be_waited_for_but_not_for_long(tokenizer_folder: Path) -> None:
    with engine(tokenizer_folder) as simulator:
        async with watched(simulator) as it:
            with anyio.fail_after(60):
                await it.follower.wait_for_news(0.02)


async def test_an_engine_that_is_started_anew_and_goes_on_numbering_is_known_by_the_cut() -> None:
    """Nothing else tells, where nobody replays: the next number is the one that is expected."""

    def stored(publisher: zmq.Socket[bytes], number: int, seed: int) -> None:
        event = BlockStored(
            block_hashes=[seed * 10 + page for page in range(1, 5)],
            parent_block_hash=None,
            token_ids=ids(seed),
            block_size=PAGE,
            cache_salt="salt",
        )
        batch = msgspec.msgpack.encode([time.time(), [event], None])
        publisher.send_multipart((b"kv", number.to_bytes(8, "big"), batch))

    def holds(seed: int) -> int | None:
        match = index.match(index.keys(ids(seed)), salt="salt", sent_at=time.monotonic())
        return match.replicas.get(REPLICA, ReplicaMatch()).resident

    index = PrefixIndex(page_tokens=PAGE)
    with zmq.Context() as context, anyio.fail_after(90):
        old = context.socket(zmq.XPUB)
        port = old.bind_to_random_port("tcp://127.0.0.1")
        address = KvEventsAddress(events=f"tcp://127.0.0.1:{port}", replay=None, topic="kv")
        source = KvEventSource(address=address, index=index)
        follower = KvEventFollower(replica=REPLICA, source=lambda: source)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follower.follow)
            assert await becomes(lambda: old.poll(0) > 0)  # it has subscribed
            stored(old, 0, 0)
            assert await becomes(lambda: holds(0) == 4)
            lost = follower.status.unfilled_gaps
            old.close(linger=0)
            new = context.socket(zmq.XPUB)
            assert await becomes(lambda: bound(new, address.events))
            assert await becomes(lambda: new.poll(0) > 0)
            stored(new, 1, 1)
            assert await becomes(lambda: holds(1) == 4)
            assert follower.status.unfilled_gaps == lost + 1
            assert holds(0) is None
            tasks.cancel_scope.cancel()
        new.close(linger=0)
    follower.close()


def bound(socket: zmq.Socket[bytes], endpoint: str) -> bool:
    """Whether an address could be had; its last owner takes a moment to let go of it."""
    try:
        socket.bind(endpoint)
    except zmq.ZMQError:
        return False
    return True
