"""The faults: what is done, what clients may be told meanwhile, and what it takes to do it."""

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.faults.hostile import half_bodies, hostile_bodies, slow_clients
from bench.faults.machine import cut_off, full_disk
from bench.faults.outcomes import Kind, read_body
from bench.faults.processes import Child, signal_tree, wait_for_end
from bench.faults.world import ENGINES, World

Strike = Callable[[World], Awaitable[list[str]]]

_AWAY_S = 4.0
_HANG_S = 12.0
# An engine hangs for so much longer than the gateway waits for its first byte.
_TOO_LONG_S = 8.0
_LOOK_S, _LOOKS = 0.2, 300
_DAY_S = 86_400.0
_STEP_S = 3.0
_FEW_BYTES = 4_096

ENGINE_GONE = frozenset(
    {"engine_unreachable", "engine_protocol", "engine_not_ready", "engine_timeout"}
)
# What an engine answers to a stream and to others while it is shut down.
ENGINE_ENDING = frozenset({"engine_refused"})
# A request that found no place in time while half of the engines were away.
QUEUED = frozenset({"deadline_exceeded", "queue_full"})
SEARCH_GONE = frozenset({"storage_unavailable"})
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        what: what is done, in words.
        strike: does it, and undoes it where nobody else would; says what went wrong by itself.
        codes: errors that clients may get meanwhile.
        hinders: why it can't be done to a deployment; None: it can.
    """

    name: str
    what: str
    strike: Strike
    codes: frozenset[str] = NOTHING
    hinders: Callable[[World], str | None] = lambda _: None


def _kill(part: str) -> Strike:
    async def strike(world: World) -> list[str]:
        await _back(world, part, _end(world, part))
        return []

    return strike


async def _kill_engine(world: World) -> list[str]:
    return await _kill(await world.busiest())(world)


async def _hang_engine(world: World) -> list[str]:
    for_s = world.first_byte_s + _TOO_LONG_S
    return await _hang_process(world.parts.pid(await world.busiest()), for_s)


def _end(world: World, part: str) -> int | None:
    """SIGKILL to the process that its supervisor knows, with what it started; returns its id."""
    pid = world.parts.pid(part)
    if pid is not None:
        signal_tree(pid, signal.SIGKILL)
        wait_for_end(pid)
    return pid


async def _back(world: World, part: str, before: int | None) -> None:
    """Until it was started again: by its supervisor, or by us."""
    if not world.parts.restarts_itself:
        await asyncio.sleep(_AWAY_S)
        world.parts.start(part)
        return
    for _ in range(_LOOKS):
        if world.parts.pid(part) not in (before, None):
            return
        await asyncio.sleep(_LOOK_S)


async def _kill_all_engines(world: World) -> list[str]:
    ended = {engine: _end(world, engine) for engine in ENGINES}
    await asyncio.gather(*(_back(world, engine, pid) for engine, pid in ended.items()))
    return []


def _terminate(part: str) -> Strike:
    async def strike(world: World) -> list[str]:
        pid = world.parts.pid(part)
        if pid is not None:
            signal_tree(pid, signal.SIGTERM)
            await asyncio.to_thread(wait_for_end, pid, 30.0)
        await _back(world, part, pid)
        return []

    return strike


def _hang(part: str, for_s: float = _HANG_S) -> Strike:
    async def strike(world: World) -> list[str]:
        return await _hang_process(world.parts.pid(part), for_s)

    return strike


async def _hang_process(pid: int | None, for_s: float) -> list[str]:
    """SIGSTOP to a process and all that it started."""
    if pid is None:
        return ["it did not run"]
    signal_tree(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        signal_tree(pid, signal.SIGCONT)
    return []


def _redis(world: World) -> Child:
    assert world.redis is not None
    return world.redis.child


async def _kill_redis(world: World) -> list[str]:
    _redis(world).stop(signal.SIGKILL)
    await asyncio.sleep(_AWAY_S)
    assert world.redis is not None
    await asyncio.to_thread(world.redis.start)
    return []


async def _hang_redis(world: World) -> list[str]:
    return await _hang_process(_redis(world).pid, _HANG_S)


async def _crash_postgres(world: World) -> list[str]:
    assert world.postgres is not None
    await asyncio.to_thread(world.postgres.child.stop, signal.SIGQUIT)
    await asyncio.sleep(2 * _AWAY_S)
    await asyncio.to_thread(world.postgres.start)
    return []


async def _hang_postgres(world: World) -> list[str]:
    assert world.postgres is not None
    return await _hang_process(world.postgres.child.pid, _HANG_S)


async def _fill_disk(world: World) -> list[str]:
    """Meanwhile an upload is refused; the ledger's rows wait."""
    with full_disk(world.home) if world.small_home else _no_large_files(world):
        file = {"file": ("large.txt", b"a" * 2**20)}
        answer = await world.operator.post("/v1/files", files=file, data={"purpose": "assistants"})
        await asyncio.sleep(2 * _AWAY_S)
    read = read_body(Kind.CHAT, answer.status_code, answer.content)
    if (answer.status_code, read.code) == (507, "storage_refused"):
        return []
    return [f"an upload got {answer.status_code}: {answer.text[:200]}"]


@contextmanager
def _no_large_files(world: World) -> Iterator[None]:
    """The kernel refuses the gateway files of more than a few bytes."""
    pid = world.parts.pid("gateway")
    assert pid is not None
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FEW_BYTES, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def _cut(world: World) -> list[str]:
    with cut_off(world.parts.port(await world.busiest())):
        await asyncio.sleep(_HANG_S)
    return []


async def _slow(world: World) -> list[str]:
    return await slow_clients(world.gateway_port, world.tenants[0])


async def _halves(world: World) -> list[str]:
    return await half_bodies(world.gateway_port, world.tenants[0])


async def _hostile(world: World) -> list[str]:
    return await hostile_bodies(world.gateway_port, world.tenants[0])


async def _jump(world: World) -> list[str]:
    assert world.clock is not None
    try:
        for offset_s in (_DAY_S, -3_600.0, 365 * _DAY_S):
            world.clock.set(offset_s)
            await asyncio.sleep(_STEP_S)
    finally:
        world.clock.set(0)
    return []


async def _nothing(_: World) -> list[str]:
    await asyncio.sleep(2 * _AWAY_S)
    return []


def _no_redis(world: World) -> str | None:
    return "redis-server is not installed" if world.redis is None else None


def _no_postgres(world: World) -> str | None:
    return "the database of this run is SQLite" if world.postgres is None else None


def _no_part(part: str) -> Callable[[World], str | None]:
    def hinders(world: World) -> str | None:
        return f"this deployment has no {part}" if world.parts.pid(part) is None else None

    return hinders


def _no_cut(world: World) -> str | None:
    return None if world.can_cut else "iptables is missing, or not allowed"


def _no_clock(world: World) -> str | None:
    return "no C compiler is here" if world.clock is None else None


def _no_disk(world: World) -> str | None:
    return "the database of this run is PostgreSQL" if world.postgres is not None else None


_AWAY = ENGINE_GONE | QUEUED

FAULTS: tuple[Fault, ...] = (
    Fault(name="nothing", what="nothing, for comparison", strike=_nothing),
    Fault(
        name="engine-killed",
        what="SIGKILL to an engine with streams and waiting requests",
        strike=_kill_engine,
        codes=_AWAY,
    ),
    Fault(
        name="engine-hung",
        what="SIGSTOP to an engine, for longer than the gateway waits for its first byte",
        strike=_hang_engine,
        codes=_AWAY,
    ),
    Fault(
        name="engine-restarted",
        what="SIGTERM to an engine, and a new start",
        strike=_terminate(ENGINES[1]),
        codes=_AWAY | ENGINE_ENDING,
    ),
    Fault(
        name="all-engines-killed",
        what="SIGKILL to both engines",
        strike=_kill_all_engines,
        codes=_AWAY,
    ),
    Fault(
        name="tier-killed",
        what="SIGKILL to the tier server (LMCache)",
        strike=_kill("tier"),
        hinders=_no_part("tier"),
    ),
    Fault(
        name="tier-hung",
        what=f"SIGSTOP to the tier server, SIGCONT after {_HANG_S:g} s",
        strike=_hang("tier"),
        hinders=_no_part("tier"),
    ),
    Fault(
        name="tier-redis-killed",
        what="SIGKILL to the Redis that is a tier",
        strike=_kill("redis"),
        hinders=_no_part("redis"),
    ),
    Fault(
        name="redis-killed",
        what=f"SIGKILL to the Redis of the limits, back after {_AWAY_S:g} s",
        strike=_kill_redis,
        hinders=_no_redis,
    ),
    Fault(
        name="redis-hung",
        what=f"SIGSTOP to the Redis of the limits, SIGCONT after {_HANG_S:g} s",
        strike=_hang_redis,
        hinders=_no_redis,
    ),
    Fault(
        name="postgres-crashed",
        what=f"SIGQUIT to PostgreSQL, back after {2 * _AWAY_S:g} s",
        strike=_crash_postgres,
        codes=SEARCH_GONE,
        hinders=_no_postgres,
    ),
    Fault(
        name="postgres-hung",
        what=f"SIGSTOP to PostgreSQL, SIGCONT after {_HANG_S:g} s",
        strike=_hang_postgres,
        codes=SEARCH_GONE,
        hinders=_no_postgres,
    ),
    Fault(
        name="disk-full",
        what=f"no room in the home folder for {2 * _AWAY_S:g} s",
        strike=_fill_disk,
        hinders=_no_disk,
    ),
    Fault(
        name="network-cut",
        what=f"packets between gateway and an engine vanish for {_HANG_S:g} s",
        strike=_cut,
        codes=_AWAY,
        hinders=_no_cut,
    ),
    Fault(name="slow-clients", what="80 clients that send a byte each half second", strike=_slow),
    Fault(name="half-bodies", what="80 clients that send half of a body", strike=_halves),
    Fault(
        name="hostile-bodies", what="bodies and heads that no client should send", strike=_hostile
    ),
    Fault(
        name="clock-jumps",
        what="the time of day is a day ahead, an hour behind, a year ahead, and right again",
        strike=_jump,
        hinders=_no_clock,
    ),
)
