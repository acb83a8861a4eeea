"""The engine's boot ledger before it boots: one value with every figure and how it came about."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from cache.kv_plan.architectures import kv_layout
from cache.kv_plan.config import ModelConfig
from cache.kv_plan.corpus import Corpus, corpus_of
from cache.kv_plan.dtypes import kv_dtype, model_dtype, number_bytes
from cache.kv_plan.gpus import TAKEN_BEFORE_LOADING_MIB, Gpu
from cache.kv_plan.layers import KvLayout, LatentLayers
from cache.kv_plan.memory import default_mem_fraction, kv_budget_bytes
from cache.kv_plan.pools import Pool, PoolShape, pool_for, pool_of
from cache.kv_plan.tiers import TierCapacity, tier_capacities
from cache.kv_plan.weights import Weights, weights_of
from cache.tiers import TierSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What the engine will be started with.

    Attributes:
        ranks: `--tp-size`; memory figures are of one GPU each.
        free_mib: free memory before the weights are loaded, where it is known.
        mem_fraction: `--mem-fraction-static`; None as SGLang picks it.
        pool_tokens: the pool of an engine that runs; then neither GPU nor weights matter.
        most_tokens: `--max-total-tokens`.
        weight_bytes: all weights, where the files can't tell.
        corpus_tokens: documents to keep in the pool.
    """

    gpu: Gpu | None = None
    free_mib: float | None = None
    ranks: int = 1
    dtype: str = "auto"
    kv_dtype: str = "auto"
    mem_fraction: float | None = None
    page_tokens: int = 16
    context_tokens: int | None = None
    pool_tokens: int | None = None
    state_slots: int | None = None
    most_tokens: int | None = None
    weight_bytes: int | None = None
    tiers: TierSettings | None = field(default=None, repr=False)
    corpus_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """One GPU's memory, as SGLang divides it; MiB as the driver counts, bytes elsewhere.

    Attributes:
        mem_fraction_told: whether the operator set it.
        budget_bytes: for KV and states; below 0 where the weights don't fit.
    """

    gpu: Gpu
    free_mib: float
    free_told: bool
    mem_fraction: float
    mem_fraction_told: bool
    weight_bytes: int
    budget_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPlan:
    """Everything that can be told of a model and its memory.

    Attributes:
        bytes_per_token: KV of one token on one GPU, in all layers.
        weights: all weights; None where nothing tells.
        memory: None where no GPU was named, or no weights are known.
        pool: None where its size isn't known.
        concurrency: requests of the whole context length that the pool holds; a fraction tells
            how much of one fits.
        tiers: empty where none were asked for; None where they can't be told for this model.
    """

    config: ModelConfig
    options: PlanOptions
    layout: KvLayout
    dtype: str
    kv_dtype: str
    shape: PoolShape
    context_tokens: int
    weights: Weights | None
    memory: GpuMemory | None
    pool: Pool | None
    tiers: tuple[TierCapacity, ...] | None
    corpus: Corpus | None

    @property
    def bytes_per_token(self) -> int:
        """KV of one token on one GPU, in all layers that keep one slot a token."""
        return self.shape.full + self.shape.sliding

    @property
    def replica_bytes_per_token(self) -> int:
        """KV of one token on all GPUs together, copies included."""
        return self.bytes_per_token * self.options.ranks

    @property
    def concurrency(self) -> float | None:
        """Worst case: every request as long as the context window."""
        if self.pool is None:
            return None
        by_tokens = self.pool.tokens / self.context_tokens
        if self.pool.state_slots is None or not self.shape.slots_per_request:
            return by_tokens
        return min(by_tokens, float(self.pool.state_slots // self.shape.slots_per_request))

    @property
    def objects_per_chunk(self) -> int:
        """LMCache's objects for one chunk: one for each rank, or one where all ranks have the same.

        Source: lmcache 0.5.6, integration/sglang/unified_lmcache_mp_connector.py (`mla_only`).
        """
        return 1 if isinstance(self.layout.full, LatentLayers) else self.options.ranks


def make_plan(config: ModelConfig, options: PlanOptions, *, folder: Path | None = None) -> KvPlan:
    """The plan of a model with these options.

    Args:
        folder: where weight files or their index may lie.

    Raises:
        ModelUnsupportedError: an architecture that isn't understood.
        ModelConfigError: a field, a type or a weight file that can't be used.
    """
    layout = kv_layout(config, ranks=options.ranks)
    dtype = model_dtype(config, options.dtype)
    kept_as = kv_dtype(config, asked=options.kv_dtype, dtype=dtype)
    shape = PoolShape.of(
        layout,
        number_bytes=number_bytes(kept_as),
        ranks=options.ranks,
        page_tokens=options.page_tokens,
    )
    weights = _weights(config, options, folder=folder, dtype=dtype)
    memory = _memory(config, options, layout=layout, weights=weights)
    pool = _pool(shape, options, memory)
    context = options.context_tokens or config.context_tokens
    plan = KvPlan(
        config=config,
        options=options,
        layout=layout,
        dtype=dtype,
        kv_dtype=kept_as,
        shape=shape,
        context_tokens=context,
        weights=weights,
        memory=memory,
        pool=pool,
        tiers=(),
        corpus=corpus_of(options.corpus_tokens, shape=shape, pool=pool, context_tokens=context),
    )
    return _with_tiers(plan)


def _weights(
    config: ModelConfig, options: PlanOptions, *, folder: Path | None, dtype: str
) -> Weights | None:
    if options.weight_bytes is not None:
        return Weights(bytes=options.weight_bytes, how="as given", exact=True)
    return weights_of(config, folder=folder, dtype=dtype)


def _memory(
    config: ModelConfig, options: PlanOptions, *, layout: KvLayout, weights: Weights | None
) -> GpuMemory | None:
    if options.gpu is None or weights is None:
        return None
    free = options.free_mib
    if free is None:
        free = max(0.0, options.gpu.total_mib - TAKEN_BEFORE_LOADING_MIB)
    fraction = options.mem_fraction
    if fraction is None:
        fraction = default_mem_fraction(
            config,
            total_mib=options.gpu.total_mib,
            ranks=options.ranks,
            latent=isinstance(layout.full, LatentLayers),
        )
    share = -(-weights.bytes // options.ranks)
    return GpuMemory(
        gpu=options.gpu,
        free_mib=free,
        free_told=options.free_mib is not None,
        mem_fraction=fraction,
        mem_fraction_told=options.mem_fraction is not None,
        weight_bytes=share,
        budget_bytes=kv_budget_bytes(
            config, free_mib=free, weight_bytes=share, mem_fraction=fraction
        ),
    )


def _pool(shape: PoolShape, options: PlanOptions, memory: GpuMemory | None) -> Pool | None:
    if options.pool_tokens is not None:
        return pool_of(shape, tokens=options.pool_tokens, state_slots=options.state_slots)
    if memory is None:
        return None
    return pool_for(shape, budget_bytes=memory.budget_bytes, most_tokens=options.most_tokens)


def _with_tiers(plan: KvPlan) -> KvPlan:
    """The tiers, except for models whose layers differ: LMCache then keeps several kinds of
    objects, which only `--separate-object-groups` tells apart."""
    settings = plan.options.tiers
    if settings is None or not settings.enabled:
        return plan
    if plan.shape.slot or plan.shape.sliding:
        return replace(plan, tiers=None)
    held = tier_capacities(
        settings, bytes_per_token=plan.bytes_per_token, objects=plan.objects_per_chunk
    )
    return replace(plan, tiers=held)
