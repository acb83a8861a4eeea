"""One soak from its start to its result. A soak whose folder is there goes on where it stopped."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from bench.soak.collections import delete_collection, make_collection
from bench.soak.http import HttpClient
from bench.soak.latency import milliseconds, percentile
from bench.soak.ledger_checks import open_ledger, sizes
from bench.soak.options import SoakOptions
from bench.soak.probe import added_latency
from bench.soak.proc import process_state
from bench.soak.processes import Running, running_processes, wait_until_ready
from bench.soak.samples import Sample, append_sample, metric, read_samples
from bench.soak.traffic import Seen, Traffic
from bench.soak.workload import Workload

_HOST = "127.0.0.1"
_FLUSH_EVERY = 8
_SETTLE_S = 1.6  # the ledger writes once a second
_SETTLE_TRIES = 20

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Life:
    """One start of the gateway, and what was asked of it.

    Attributes:
        requests: requests that must have left a row.
        statuses: what clients saw, by status or word.
        ordered: requests that the simulator was told to fail.
    """

    number: int
    ledger_before: int = 0
    requests: int = 0
    ordered: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    settled: bool = True
    metrics: str = ""


class Soak:
    """Both processes, the clients, and the samples."""

    def __init__(self, options: SoakOptions, running: Running, *, before: list[Sample]) -> None:
        self.life = Life(number=before[-1].life + 1 if before else 1)
        self.options = options
        self._running = running
        self._overall = before[-1].overall if before else 0
        self._began = time.monotonic()
        self._gateway = HttpClient(_HOST, running.gateway_port)
        self._simulator = HttpClient(_HOST, running.simulator_port)
        self._file = options.folder.resolve() / "home" / "foreword.db"
        self._ledger: sa.Engine = open_ledger(self._file)
        self._stores: dict[str, str] = {}
        # Another order in each life: the same one again would find everything in the engine.
        seed = options.seed * 1_000 + self.life.number
        self._workload = Workload(seed, collections=[])
        self._traffic = Traffic(self._gateway, self._simulator, self._workload, first=self._overall)

    async def begin(self) -> None:
        """Wait for the gateway, and make the collections."""
        await wait_until_ready(self._gateway, "the gateway")
        self.life.ledger_before = sizes(self._ledger, self._file).rows
        for number in range(self.options.collections):
            await self._make(f"life-{self.life.number}-{number}")

    @property
    def left(self) -> int:
        return max(0, self.options.requests - self._overall)

    async def stretch(self, requests: int) -> Sample:
        """Ask so many times, let it settle, and look at the gateway."""
        began, cpu_before = time.monotonic(), self._cpu_s()
        seen = await self._ask(requests)
        took, cpu_s = time.monotonic() - began, self._cpu_s() - cpu_before
        self._overall += requests
        self.life.requests += requests
        self.life.statuses += seen.statuses
        self.life.ordered = self._traffic.broken_on_purpose
        await self._settle()
        added = await self._probe()
        sample = self._sample(seen, requests / took, cpu_s / requests, added)
        append_sample(self.options.folder / "samples.jsonl", sample)
        return sample

    async def cpu_us_of(self, requests: int) -> float:
        """Ask so many times; CPU of the gateway for each, its afterwork included, in µs."""
        before = self._cpu_s()
        self.life.requests += requests
        await self._ask(requests)
        await self._settle()
        return (self._cpu_s() - before) / requests * 1e6

    async def change_collection(self) -> None:
        """Delete the oldest collection, and make another."""
        name, store = next(iter(self._stores.items()))
        del self._stores[name]
        await delete_collection(self._gateway, store)
        await self._make(f"{name}-again"[-40:])

    async def flush_engine(self) -> None:
        """Let the engine forget all: KV events say so."""
        await self._simulator.send("POST", "/flush_cache")

    def close(self) -> None:
        self._gateway.close()
        self._simulator.close()
        self._ledger.dispose()

    async def _make(self, name: str) -> None:
        self._stores[name] = await make_collection(self._gateway, self.options.seed, name)
        self._workload.collections[:] = self._stores

    async def _ask(self, requests: int) -> Seen:
        given = self.options
        return await self._traffic.stretch(requests, workers=given.workers, faults=given.faults)

    async def _settle(self) -> None:
        """Until no request is in flight and the ledger has them all; notes if that never comes."""
        # Faults that are still due would meet the probes.
        await self._simulator.send("DELETE", "/simulator/faults")
        for _ in range(_SETTLE_TRIES):
            await asyncio.sleep(_SETTLE_S)
            self.life.metrics = (await self._gateway.send("GET", "/metrics")).body.decode()
            rows = sizes(self._ledger, self._file).rows - self.life.ledger_before
            busy = metric(self.life.metrics, "foreword_in_flight_requests")
            self.life.settled = rows >= self.life.requests and not busy
            if self.life.settled:
                return

    async def _probe(self) -> tuple[float | None, float | None]:
        pairs = self.options.probes
        added = await added_latency(
            self._gateway, self._simulator, pairs=pairs, seed=self.life.requests
        )
        self.life.requests += pairs
        self.life.statuses["200"] += pairs
        if pairs:
            await self._settle()
        return added

    def _sample(
        self,
        seen: Seen,
        requests_per_s: float,
        cpu_s: float,
        added: tuple[float | None, float | None],
    ) -> Sample:
        state = process_state(self._running.gateway_pid)
        ledger = sizes(self._ledger, self._file)
        text = self.life.metrics
        return Sample(
            life=self.life.number,
            requests=self.life.requests,
            overall=self._overall,
            elapsed_s=round(time.monotonic() - self._began, 1),
            requests_per_s=round(requests_per_s, 1),
            rss_kb=state.rss_kb,
            anonymous_kb=state.anonymous_kb,
            threads=state.threads,
            descriptors=state.descriptors,
            cpu_us=round(cpu_s * 1e6),
            ttft_ms=_two(seen.first_s),
            e2e_ms=_two(seen.total_s),
            added_ms=added,
            in_flight=metric(text, "foreword_in_flight_requests"),
            index_pages=metric(text, "foreword_index_pages"),
            accounting_errors=metric(text, "foreword_accounting_errors"),
            ledger_dropped=metric(text, "foreword_ledger_dropped_rows"),
            event_batches=metric(text, "foreword_kv_event_batches"),
            event_gaps=metric(text, "foreword_kv_event_gaps"),
            ledger_rows=ledger.rows - self.life.ledger_before,
            rollup_rows=ledger.rollup_rows,
            ledger_kb=ledger.kilobytes,
            simulator_kb=process_state(self._running.simulator_pid).rss_kb,
            load_average=os.getloadavg()[0],
            statuses=dict(seen.statuses),
        )

    def _cpu_s(self) -> float:
        return process_state(self._running.gateway_pid).cpu_s


@asynccontextmanager
async def soaking(options: SoakOptions) -> AsyncIterator[Soak]:
    """A soak that is ready for its first request."""
    before = read_samples(options.folder / "samples.jsonl")
    with running_processes(options) as running:
        soak = Soak(options, running, before=before)
        try:
            await soak.begin()
            yield soak
        finally:
            soak.close()


async def soak_through(options: SoakOptions, *, say: Say) -> tuple[Life, list[Sample]]:
    """Run to the end, or until SIGINT or SIGTERM, which ends it after the stretch under way.

    Raises:
        SoakError: a process did not start, or the gateway refused to make a collection.
    """
    stop = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stop.set)
    size = max(1, options.requests // options.stretches)
    async with soaking(options) as soak:
        number = 0
        while soak.left and not stop.is_set():
            sample = await soak.stretch(min(size, soak.left))
            say(progress_line(sample, options.requests))
            number += 1
            await soak.change_collection()
            if number % _FLUSH_EVERY == 0:
                await soak.flush_engine()
        return soak.life, read_samples(options.folder / "samples.jsonl")


def progress_line(sample: Sample, requests: int) -> str:
    """One line for people who wait."""
    return (
        f"{sample.overall:>9,}/{requests:,} requests  {sample.requests_per_s:6.1f}/s  "
        f"RSS {sample.rss_kb / 1024:6.1f} MiB  CPU {sample.cpu_us / 1e3:5.2f} ms  "
        f"added {sample.added_ms[0] or 0:5.1f} ms  index {sample.index_pages:,.0f} pages  "
        f"ledger {sample.ledger_kb / 1024:,.0f} MiB  fds {sample.descriptors}"
    )


def _two(seconds: list[float]) -> tuple[float | None, float | None]:
    return milliseconds(percentile(seconds, 0.5)), milliseconds(percentile(seconds, 0.99))
