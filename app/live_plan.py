"""The running engine's plan, put together from what it, its tiers and its model's folder say."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio

from app.engine import EngineInfo
from app.engine_speed import EngineSpeed
from app.tier_policy import TierPolicy
from cache.errors import ModelConfigError, ModelUnsupportedError
from cache.kv_plan import KvPlan, PlanOptions, make_plan, read_model_config
from cache.kv_plan.live import LivePlan, live_tiers


async def live_plan(
    info: EngineInfo,
    *,
    speed: EngineSpeed,
    policy: TierPolicy | None,
    corpus_tokens: int | None = None,
) -> LivePlan:
    """What the engine holds now. A model whose files can't be read from here has no plan."""
    plan, problem = None, None
    try:
        plan = await anyio.to_thread.run_sync(partial(_plan, info, corpus_tokens))
    except (ModelConfigError, ModelUnsupportedError) as error:
        problem = str(error)
    status = policy.status if policy else None
    found = policy.found if policy else {}
    return LivePlan(
        model=info.served_name,
        plan=plan,
        problem=problem,
        loads=speed.loads,
        page_tokens=info.page_tokens,
        speed=speed.speed,
        tiers=live_tiers(status, found),
    )


def engine_ranks(settings: Mapping[str, object]) -> int:
    """How many GPUs share one token's KV, by `/server_info`.

    With data-parallel attention the GPUs of `--tp-size` form groups of their own.
    """
    ranks, groups = settings.get("tp_size"), 1
    if settings.get("enable_dp_attention"):
        told = settings.get("dp_size")
        groups = told if isinstance(told, int) and told >= 1 else 1
    return max(1, ranks // groups) if isinstance(ranks, int) else 1


def _plan(info: EngineInfo, corpus_tokens: int | None) -> KvPlan:
    folder = Path(info.model_path)
    slots = info.settings.get("max_mamba_cache_size")
    options = PlanOptions(
        ranks=engine_ranks(info.settings),
        dtype=str(info.settings.get("dtype") or "auto"),
        kv_dtype=str(info.settings.get("kv_cache_dtype") or "auto"),
        page_tokens=info.page_tokens,
        context_tokens=info.context_tokens,
        pool_tokens=info.pool_tokens,
        state_slots=slots if isinstance(slots, int) else None,
        corpus_tokens=corpus_tokens,
    )
    return make_plan(read_model_config(folder), options, folder=folder)
