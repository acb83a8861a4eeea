"""A run from its plan to its folder: warm-up, flush, passes, and what is kept of each."""

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.errors import RunFolderTakenError, TargetError
from bench.load.bodies import Bodies
from bench.load.machine import commit, load_average, machine
from bench.load.pool import Pool
from bench.load.priority import before_others
from bench.load.progress import Bar, progress_bar
from bench.load.runner import CHAT_PATH, Pass, Runner
from bench.load.send_times import chains_of, send_times_s
from bench.load.target import Control, Found, counted
from bench.load.validity import Bounds, faults, lag_p99_s
from bench.run_folder import (
    FACTS_FILE,
    REQUESTS_FILE,
    Load,
    Phase,
    RequestLine,
    RunFacts,
    Target,
    WorkloadRef,
    write_facts,
    write_requests,
)
from bench.workloads.file import Workload
from cache.engine_metrics import EngineSnapshot

_Act = Callable[[], None]
_Keep = Callable[[RequestLine], None]

_DRAW_S = 1.0
_AHEAD = 64
_IGNORES_EOS = ("foreword", "sglang", "vllm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done.

    Attributes:
        model: None: the first that the target names.
        ignore_eos: None: where the target is known to take that field.
        limit: the body's field for the longest answer.
        warmup: short requests of no workload beforehand, so that kernels and connections are there.
        flush: empty the engines' caches before the first pass.
        passes: how often the whole list is sent; after the first it is warm.
        real_time: send with real-time priority, where that is permitted.
        command: what was typed, for the record.
    """

    url: str
    folder: Path
    workload: Workload
    load: Load
    seed: int = 0
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict)
    ignore_eos: bool | None = None
    limit: str = "max_tokens"
    warmup: int = 0
    flush: bool = False
    passes: int = 1
    timeout_s: float = 600.0
    engine_urls: tuple[str, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    command: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    real_time: bool = True


def run_plan(plan: Plan) -> tuple[RunFacts, list[RequestLine]]:
    """Send it, and leave its folder; the folder is there from the start, and says so.

    Raises:
        BenchError: the target or the plan is at fault. Failed requests are in the result instead.
    """
    headers = {"authorization": f"Bearer {plan.api_key}"} if plan.api_key else {}
    # Both before anything is written: a wrong URL and a missing time are mistakes of the caller's.
    pool = Pool(plan.url, headers=headers, timeout_s=plan.timeout_s)
    send_times_s(plan.load, chains_of(plan.workload.requests), plan.seed)
    control = Control(pool.base_url, headers=headers, engine_urls=plan.engine_urls)
    try:
        found = control.find()
        model = plan.model or found.model
        if model is None:
            control.reach()
            raise TargetError(pool.base_url, "names no model: give --model")
        if plan.flush and not found.engines:
            control.flush(())
        facts = _facts_before(plan, found, model, pool.base_url)
        _begin_folder(plan.folder, facts)
        bodies = _bodies(plan, found, model)
        return _Sending(plan, pool, control, found, bodies, facts).run()
    finally:
        control.close()


class _Sending:
    """One run under way."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        control: Control,
        found: Found,
        bodies: Bodies,
        facts: RunFacts,
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._control = control
        self._found = found
        self._bodies = bodies
        self._facts = facts
        self._passes: list[Pass] = []
        self._before: list[EngineSnapshot] | None = None
        self._encoder = msgspec.json.Encoder()

    def run(self) -> tuple[RunFacts, list[RequestLine]]:
        plan = self._plan
        planned = plan.passes * len(plan.workload.requests)
        with (plan.folder / REQUESTS_FILE).open("wb") as file, progress_bar(planned) as bar:

            def keep(line: RequestLine) -> None:
                file.write(self._encoder.encode(line) + b"\n")
                bar.ended(ok=line.ok)

            began = time.perf_counter()
            try:
                with (
                    before_others(wanted=plan.real_time) as scheduled,
                    asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
                ):
                    runner.run(self._until_stopped(bar, file.flush, keep, began))
            except TargetError:
                _remove_folder(plan.folder)
                raise
            duration_s = time.perf_counter() - began
        lines = self._in_order()
        # While it ran, lines came as requests ended; the folder has them in the workload's order.
        write_requests(plan.folder, lines)
        lag_s = lag_p99_s([lag for each in self._passes for lag in each.lags_s])
        reasons = tuple(faults(lines, planned=planned, lag_s=lag_s, bounds=plan.bounds))
        interrupted = sum(line.error == "interrupted" for line in lines)
        if interrupted:
            reasons = (f"interrupted: {interrupted} requests were under way", *reasons)
        facts = msgspec.structs.replace(
            self._facts,
            load_average=load_average(),
            counted=counted(self._before, self._control.snapshots(self._found.engines)),
            duration_s=round(duration_s, 6),
            lag_p99_s=lag_s,
            generator=scheduled,
            valid=not reasons,
            reasons=reasons,
        )
        write_facts(plan.folder, facts)
        return facts, lines

    async def _until_stopped(self, bar: Bar, flush: _Act, keep: _Keep, began: float) -> None:
        """All passes; a first interrupt ends them, and what there is is kept."""
        loop = asyncio.get_running_loop()
        sending = asyncio.ensure_future(self._all_passes(keep, began))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, sending.cancel)
        drawing = asyncio.ensure_future(_draw(bar, flush))
        try:
            await asyncio.wait([sending])
        finally:
            drawing.cancel()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            self._pool.close()
        if not sending.cancelled():
            sending.result()

    async def _all_passes(self, keep: _Keep, began: float) -> None:
        plan = self._plan
        chains = chains_of(plan.workload.requests)
        await self._pool.warm_up(min(len(chains), plan.load.concurrency or _AHEAD, _AHEAD))
        await self._warm_up()
        self._before = self._control.snapshots(self._found.engines)
        runner = Runner(self._pool, self._bodies, plan.load, began=began, on_line=keep)
        for number in range(plan.passes):
            if plan.flush and number == 0:
                self._control.flush(self._found.engines)
            state = Pass(phase=self._phase(number))
            self._passes.append(state)
            await runner.run(chains, send_times_s(plan.load, chains, plan.seed), state)

    async def _warm_up(self) -> None:
        """Words that no workload has, so that nothing measured is in a cache for them."""
        for number in range(self._plan.warmup):
            body = self._bodies.plain(f"Warm-up {number}: say yes.", max_tokens=2)
            made = await self._pool.exchange(self._pool.request("POST", CHAT_PATH, body))
            if made.problem is not None or made.status != 200:
                told = made.problem or f"HTTP {made.status}: {made.body[:200].decode()}"
                raise TargetError(self._pool.base_url, f"refused a warm-up request: {told}")

    def _phase(self, number: int) -> Phase:
        return "cold" if number == 0 and (self._plan.flush or self._plan.passes > 1) else "warm"

    def _in_order(self) -> list[RequestLine]:
        place = {request.id: at for at, request in enumerate(self._plan.workload.requests)}
        return [
            line
            for each in self._passes
            for line in sorted(each.ended, key=lambda line: place[line.id])
        ]


async def _draw(bar: Bar, flush: _Act) -> None:
    while True:
        await asyncio.sleep(_DRAW_S)
        flush()
        bar.draw()


def _bodies(plan: Plan, found: Found, model: str) -> Bodies:
    ignore_eos = found.kind in _IGNORES_EOS if plan.ignore_eos is None else plan.ignore_eos
    return Bodies(model=model, extra=plan.extra, ignore_eos=ignore_eos, limit=plan.limit)


def _facts_before(plan: Plan, found: Found, model: str, url: str) -> RunFacts:
    header = plan.workload.header
    return RunFacts(
        command=plan.command,
        workload=WorkloadRef(
            name=header.name, sha256=header.sha256, requests=header.requests, seed=header.seed
        ),
        target=Target(url=url, kind=found.kind, simulated=found.simulated),
        model=model,
        load=plan.load,
        seed=plan.seed,
        commit=commit(),
        machine=machine(),
        engine=found.engine,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        valid=False,
        reasons=("it was not ended: killed, or still running",),
        labels=plan.labels,
    )


def _begin_folder(folder: Path, facts: RunFacts) -> None:
    """Raises RunFolderTakenError: there is a run in it, or it can't be written."""
    if (folder / REQUESTS_FILE).exists():
        raise RunFolderTakenError(folder, "has a run in it already")
    try:
        write_facts(folder, facts)
    except OSError as error:
        raise RunFolderTakenError(folder, f"can't be written ({error.strerror})") from error


def _remove_folder(folder: Path) -> None:
    """What was begun and never came to a request; other files stay."""
    (folder / REQUESTS_FILE).unlink(missing_ok=True)
    (folder / FACTS_FILE).unlink(missing_ok=True)
