"""SGLang's `/v1/loads`, read into one small value. Pure: JSON in, numbers out.

`total_prefill_uncached_tokens` counts the prompt tokens that were computed (re-used and loaded ones
are not among them) and `total_prefill_busy_us` the time of their batches. Both count from the
engine's start, warm-up included and health checks not, and both are written when a batch's result
has come: a long prefill shows all at once, at its end.

Source: sglang 0.5.23, srt/managers/scheduler.py `_record_step_counters`, srt/managers/
load_snapshot.py, srt/entrypoints/v1_loads.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from cache.errors import EngineLoadsError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoads:
    """One engine's load, summed over its data-parallel ranks.

    Attributes:
        uncached_tokens: prompt tokens computed since the engine's start.
        busy_s: seconds that their batches took; batches of two ranks at once count twice.
        pool_tokens: KV slots of all ranks.
        used_tokens: those that running requests hold.
        kv_pool_bytes: the KV pool of one rank on one GPU, as rounded by SGLang to about 1 MiB;
            None where it doesn't tell.
        weight_bytes: likewise the weights.
        rank_pool_tokens: KV slots of one rank; None where it doesn't tell.
        waiting_uncached_tokens: prompt tokens that queued requests have still to compute; None
            where it doesn't tell.
    """

    uncached_tokens: int
    busy_s: float
    pool_tokens: int
    used_tokens: int
    running_requests: int
    waiting_requests: int
    kv_pool_bytes: int | None
    weight_bytes: int | None
    rank_pool_tokens: int | None
    waiting_uncached_tokens: int | None = None


class _Memory(msgspec.Struct):
    weight_gb: float | None = None
    kv_cache_gb: float | None = None
    token_capacity: int | None = None


class _Rank(msgspec.Struct):
    total_prefill_uncached_tokens: int
    total_prefill_busy_us: int
    max_total_num_tokens: int = 0
    num_used_tokens: int = 0
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_waiting_uncached_tokens: int | None = None
    memory: _Memory | None = None


class _Body(msgspec.Struct):
    loads: list[_Rank]


def parse_loads(body: bytes) -> EngineLoads:
    """What the engine says of its load.

    Raises:
        EngineLoadsError: not the JSON of SGLang's `/v1/loads`, or no rank in it.
    """
    try:
        ranks = msgspec.json.decode(body, type=_Body).loads
    except msgspec.MsgspecError as exc:
        raise EngineLoadsError(reason=str(exc)) from exc
    if not ranks:
        raise EngineLoadsError(reason="it names no scheduler")
    memory = ranks[0].memory or _Memory()
    return EngineLoads(
        uncached_tokens=sum(rank.total_prefill_uncached_tokens for rank in ranks),
        busy_s=sum(rank.total_prefill_busy_us for rank in ranks) / 1e6,
        pool_tokens=sum(rank.max_total_num_tokens for rank in ranks),
        used_tokens=sum(rank.num_used_tokens for rank in ranks),
        running_requests=sum(rank.num_running_reqs for rank in ranks),
        waiting_requests=sum(rank.num_waiting_reqs for rank in ranks),
        kv_pool_bytes=_bytes(memory.kv_cache_gb),
        weight_bytes=_bytes(memory.weight_gb),
        rank_pool_tokens=memory.token_capacity,
        waiting_uncached_tokens=_sum(rank.num_waiting_uncached_tokens for rank in ranks),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    """Of all ranks; None where one of them doesn't tell."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else round(gib * 2**30)
