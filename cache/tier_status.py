"""What the tier server says about itself and about one request's load, read from its JSON. Pure.

The tier server is LMCache behind the guard; its answers are made by
deploy/engine-guard/src/foreword_guard/routes.py, and both sides are tested against one another.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from cache.errors import TierAnswerError
from cache.usage import Tier

Parsed = TypeVar("Parsed")


class AdapterState(StrEnum):
    """Whether an adapter below RAM is used."""

    OK = "ok"
    FAILING = "failing"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """Questions which chunks an adapter has; one task asks for a whole prompt.

    Attributes:
        seconds: summed over the tasks that were asked.
        late: tasks that missed the adapter's deadline; the request went on without it.
        skipped: tasks that were not asked at all, because the adapter is off or failing.
    """

    tasks: int
    seconds: float
    late: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Loads from an adapter into RAM; `chunks`, `bytes` and `seconds` are of what was served.

    Attributes:
        bytes: size in RAM, which is what the engine gets (a lossy serde stores less).
        failed: chunks that were found and not served: unreadable, altered, late, or no RAM free.
        late: tasks that missed the adapter's deadline.
    """

    tasks: int
    chunks: int
    bytes: int
    seconds: float
    failed: int
    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Stores into an adapter; nobody waits for them. `bytes` is the size in RAM."""

    tasks: int
    chunks: int
    bytes: int
    seconds: float
    failed: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterStatus:
    """One adapter below RAM.

    Attributes:
        tier: None for an adapter that is none of Foreword's tiers.
        rejected: stored chunks that didn't authenticate and were deleted.
        used_bytes: as LMCache counts since its start; 0 as `capacity_bytes` is no bound.
    """

    name: str
    tier: Tier | None
    enabled: bool
    state: AdapterState
    reason: str | None
    lookups: Lookups
    loads: Loads
    stores: Stores
    rejected: int
    used_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RamStatus:
    """The tier server's RAM, and what passed from there to the engine.

    Every load passes here, wherever it came from, so these seconds come on top of an adapter's.
    """

    used_bytes: int
    capacity_bytes: int
    chunks: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStatus:
    """The tier server at one moment; its counters start at 0 with each `instance`.

    Attributes:
        chunk_bytes: one chunk of the engine's KV; None until an engine has registered.
        evictions: chunks that LMCache evicted, by tier; what Redis evicts by itself isn't in it.
    """

    instance: str
    chunk_tokens: int
    chunk_bytes: int | None
    ram: RamStatus
    adapters: tuple[AdapterStatus, ...]
    evictions: Mapping[str, int]
    salt_keys: int
    salts_destroyed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """Tokens [start, stop) of a prompt that came from one tier."""

    tier: Tier
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedChunks:
    """Which tier each chunk of one request's load came from.

    `start` is on a chunk's border: the engine may have held the first pages of that chunk itself.
    """

    start: int
    stop: int
    runs: tuple[LoadedRun, ...]

    def tokens(self, *, held_tokens: int = 0) -> Mapping[Tier, int]:
        """Tokens by tier, without those that the engine held itself.

        Args:
            held_tokens: prompt tokens from the engine's own cache (its `device` count). With it
                the sum is the engine's `storage` count.
        """
        counts = dict.fromkeys((Tier.RAM, Tier.SSD, Tier.REDIS), 0)
        for run in self.runs:
            counts[run.tier] += max(0, run.stop - max(run.start, held_tokens))
        return counts


def parse_tier_status(body: bytes) -> TierStatus:
    """The answer of `GET /foreword/status`.

    Raises:
        TierAnswerError: it is not what the guard's tier server sends.
    """
    return _parse(body, _status)


def parse_loaded_chunks(body: bytes) -> LoadedChunks:
    """The answer of `GET /foreword/loads/{request id}`.

    Raises:
        TierAnswerError: it is not what the guard's tier server sends.
    """
    return _parse(body, _loaded_chunks)


def _parse(body: bytes, read: Callable[[Mapping[str, object]], Parsed]) -> Parsed:
    try:
        answer = json.loads(body)
        return read(_object(answer))
    except KeyError as exc:
        raise TierAnswerError(reason=f"it lacks {exc.args[0]!r}") from exc
    except ValueError as exc:
        raise TierAnswerError(reason=str(exc)) from exc


def _status(answer: Mapping[str, object]) -> TierStatus:
    chunk_bytes = answer["chunk_bytes"]
    salts = _object(answer["salts"])
    return TierStatus(
        instance=str(answer["instance"]),
        chunk_tokens=_count(answer, "chunk_tokens"),
        chunk_bytes=None if chunk_bytes is None else _count(answer, "chunk_bytes"),
        ram=_ram(_object(answer["ram"])),
        adapters=tuple(_adapter(_object(each)) for each in _list(answer["adapters"])),
        evictions={name: _whole(value) for name, value in _object(answer["evictions"]).items()},
        salt_keys=_count(salts, "keys"),
        salts_destroyed=_count(salts, "destroyed"),
    )


def _ram(ram: Mapping[str, object]) -> RamStatus:
    loads = _object(ram["loads"])
    return RamStatus(
        used_bytes=_count(ram, "used_bytes"),
        capacity_bytes=_count(ram, "capacity_bytes"),
        chunks=_count(loads, "chunks"),
        bytes=_count(loads, "bytes"),
        seconds=_seconds(loads),
    )


def _adapter(adapter: Mapping[str, object]) -> AdapterStatus:
    name = str(adapter["name"])
    reason = adapter["reason"]
    return AdapterStatus(
        name=name,
        tier=Tier(name) if name in set(Tier) else None,
        enabled=bool(adapter["enabled"]),
        state=AdapterState(str(adapter["state"])),
        reason=None if reason is None else str(reason),
        lookups=_lookups(_object(adapter["lookups"])),
        loads=_loads(_object(adapter["loads"])),
        stores=_stores(_object(adapter["stores"])),
        rejected=_count(adapter, "rejected"),
        used_bytes=_count(adapter, "used_bytes"),
        capacity_bytes=_count(adapter, "capacity_bytes"),
    )


def _lookups(counts: Mapping[str, object]) -> Lookups:
    return Lookups(
        tasks=_count(counts, "tasks"),
        seconds=_seconds(counts),
        late=_count(counts, "late"),
        skipped=_count(counts, "skipped"),
    )


def _loads(counts: Mapping[str, object]) -> Loads:
    return Loads(
        tasks=_count(counts, "tasks"),
        chunks=_count(counts, "chunks"),
        bytes=_count(counts, "bytes"),
        seconds=_seconds(counts),
        failed=_count(counts, "failed"),
        late=_count(counts, "late"),
    )


def _stores(counts: Mapping[str, object]) -> Stores:
    return Stores(
        tasks=_count(counts, "tasks"),
        chunks=_count(counts, "chunks"),
        bytes=_count(counts, "bytes"),
        seconds=_seconds(counts),
        failed=_count(counts, "failed"),
        skipped=_count(counts, "skipped"),
    )


def _loaded_chunks(answer: Mapping[str, object]) -> LoadedChunks:
    runs = tuple(_run(_object(each)) for each in _list(answer["runs"]))
    loaded = LoadedChunks(start=_count(answer, "start"), stop=_count(answer, "stop"), runs=runs)
    at = loaded.start
    for run in runs:
        if run.start != at or run.stop <= run.start:
            raise ValueError(f"its runs don't follow on one another at token {at}")
        at = run.stop
    if at != loaded.stop:
        raise ValueError(f"its runs end at token {at} and not at {loaded.stop}")
    return loaded


def _run(run: Mapping[str, object]) -> LoadedRun:
    tier = Tier(str(run["tier"]))
    if tier is Tier.GPU:
        raise ValueError("a load can't come from the GPU")
    return LoadedRun(tier=tier, start=_count(run, "start"), stop=_count(run, "stop"))


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} where an object was expected")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} where a list was expected")
    return value


def _count(counts: Mapping[str, object], name: str) -> int:
    return _whole(counts[name])


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} where a count was expected")
    return value


def _seconds(counts: Mapping[str, object]) -> float:
    value = counts["seconds"]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
        raise ValueError(f"{value!r} where seconds were expected")
    return float(value)
