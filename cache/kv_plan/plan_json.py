"""A plan for programs. Sizes are bytes on one GPU unless the name says otherwise."""

from cache.kv_plan.corpus import Corpus
from cache.kv_plan.derivation import derivation, notes, problems
from cache.kv_plan.plan import GpuMemory, KvPlan
from cache.kv_plan.pools import Pool
from cache.kv_plan.tiers import TierCapacity

SCHEMA_VERSION = 1


def to_json(plan: KvPlan) -> dict[str, object]:
    """The plan as JSON values; what isn't known is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "architecture": plan.config.architecture,
        "attention": plan.layout.full.kind.name.lower(),
        "attention_layers": plan.layout.full.count,
        "sliding_layers": plan.layout.sliding.count if plan.layout.sliding else 0,
        "masked_layers": plan.layout.masked_layers,
        "state_layers": plan.layout.state.count if plan.layout.state else 0,
        "window_tokens": plan.layout.window_tokens,
        "dtype": plan.dtype,
        "kv_dtype": plan.kv_dtype,
        "gpus": plan.options.ranks,
        "page_tokens": plan.options.page_tokens,
        "context_tokens": plan.context_tokens,
        "kv_bytes_per_token": plan.bytes_per_token,
        "kv_bytes_per_token_all_gpus": plan.replica_bytes_per_token,
        "state_bytes_per_request": plan.shape.slot,
        "weight_bytes_all_gpus": plan.weights.bytes if plan.weights else None,
        "memory": _memory(plan.memory) if plan.memory else None,
        "pool": _pool(plan, plan.pool) if plan.pool else None,
        "tiers": None if plan.tiers is None else [_tier(tier) for tier in plan.tiers],
        "corpus": _corpus(plan.corpus) if plan.corpus else None,
        "derivation": [
            {"name": line.name, "value": line.value, "how": line.how} for line in derivation(plan)
        ],
        "problems": list(problems(plan)),
        "notes": list(notes(plan)),
    }


def _memory(memory: GpuMemory) -> dict[str, object]:
    return {
        "gpu": memory.gpu.name,
        "total_mib": memory.gpu.total_mib,
        "free_before_loading_mib": memory.free_mib,
        "mem_fraction_static": memory.mem_fraction,
        "weight_bytes": memory.weight_bytes,
        "kv_budget_bytes": memory.budget_bytes,
    }


def _pool(plan: KvPlan, pool: Pool) -> dict[str, object]:
    return {
        "tokens": pool.tokens,
        "sliding_tokens": pool.sliding_tokens,
        "state_slots": pool.state_slots,
        "bytes": pool.bytes,
        "state_bytes": pool.state_bytes,
        "worst_case_requests": plan.concurrency,
    }


def _tier(tier: TierCapacity) -> dict[str, object]:
    return {
        "tier": tier.tier.value,
        "capacity_bytes": tier.capacity_bytes,
        "chunk_bytes": tier.chunk_bytes,
        "chunk_tokens": tier.chunk_tokens,
        "tokens": tier.tokens,
    }


def _corpus(corpus: Corpus) -> dict[str, object]:
    finite = corpus.share_of_pool is not None and corpus.share_of_pool != float("inf")
    return {
        "tokens": corpus.tokens,
        "held_tokens": corpus.held_tokens,
        "bytes": corpus.bytes,
        "share_of_pool": corpus.share_of_pool if finite else None,
        "left_tokens": corpus.left_tokens,
        "fits_window": corpus.fits_window,
        "fits_pool": corpus.fits_pool,
    }
