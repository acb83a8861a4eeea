"""Each figure of a plan with the arithmetic behind it, in the order in which they follow."""

from collections.abc import Iterator
from dataclasses import dataclass

from cache.kv_plan.corpus import Corpus
from cache.kv_plan.dtypes import number_bytes
from cache.kv_plan.plan import GpuMemory, KvPlan
from cache.kv_plan.pools import SLIDING_SHARE, STATE_SHARE, Pool
from cache.kv_plan.tiers import SEAL_BYTES, TierCapacity
from cache.usage import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure in words."""

    name: str
    value: str
    how: str


def derivation(plan: KvPlan) -> tuple[Line, ...]:
    """Everything that is known; what isn't is said by `notes`."""
    return tuple(_lines(plan))


def notes(plan: KvPlan) -> tuple[str, ...]:
    """What the reader should know: problems first, then what couldn't be told."""
    return tuple(_notes(plan))


def _lines(plan: KvPlan) -> Iterator[Line]:
    yield from _kv(plan)
    if plan.weights is not None:
        how = plan.weights.how
        if plan.options.ranks > 1:
            how += f"; about 1/{plan.options.ranks} of it on each GPU"
        yield Line(name="weights", value=_size(plan.weights.bytes), how=how)
    if plan.memory is not None:
        yield from _gpu(plan.memory)
    if plan.pool is not None:
        yield from _pool(plan, plan.pool)
    for tier in plan.tiers or ():
        yield _tier(plan, tier)
    if plan.corpus is not None:
        yield from _corpus(plan, plan.corpus)


def _kv(plan: KvPlan) -> Iterator[Line]:
    size = number_bytes(plan.kv_dtype)
    ranks = plan.options.ranks
    where = " on each GPU" if ranks > 1 else ""
    tail = f" x {size} B ({plan.kv_dtype}){where}"
    full = plan.layout.full.derivation(ranks=ranks) + tail
    yield Line(name="KV per token", value=_size(plan.shape.full), how=full)
    if plan.layout.sliding is not None:
        sliding = plan.layout.sliding.derivation(ranks=ranks) + tail
        how = f"{sliding}, in a pool of their own for windows of {plan.layout.window_tokens:,}"
        yield Line(name="KV per sliding slot", value=_size(plan.shape.sliding), how=how)
    if plan.layout.state is not None:
        how = plan.layout.state.derivation
        yield Line(name="state per request", value=_size(plan.shape.slot), how=how)


def _gpu(memory: GpuMemory) -> Iterator[Line]:
    name = memory.gpu.name or "GPU"
    free = _mib(memory.free_mib)
    how = f"{free} free before loading"
    how += " (as given)" if memory.free_told else "; driver and CUDA take about 1 GiB"
    yield Line(name=name, value=_mib(memory.gpu.total_mib), how=how)
    how = "as given" if memory.mem_fraction_told else "as SGLang picks it for this memory"
    yield Line(name="memory fraction", value=f"{memory.mem_fraction:.3f}", how=how)
    how = f"{free} x {memory.mem_fraction:.3f} - {_size(memory.weight_bytes)} of weights"
    yield Line(name="budget for KV", value=_size(memory.budget_bytes), how=how)


def _pool(plan: KvPlan, pool: Pool) -> Iterator[Line]:
    page = plan.options.page_tokens
    if pool.state_slots is not None:
        how = (
            f"{STATE_SHARE:g} parts of states to 1 of KV; {plan.shape.slots_per_request} slots a "
            "running request"
        )
        value = f"{pool.state_slots:,} slots, {_size(pool.state_bytes)}"
        yield Line(name="states", value=value, how=how)
    if plan.options.pool_tokens is not None:
        how = f"as the engine says; {_size(pool.bytes)}"
    else:
        budget = plan.memory.budget_bytes - pool.state_bytes if plan.memory else pool.bytes
        how = f"{_size(max(0, budget))} / {plan.shape.per_token:,.0f} B, in pages of {page}"
    yield Line(name="pool", value=f"{pool.tokens:,} tokens", how=how)
    if pool.sliding_tokens is not None:
        how = f"{SLIDING_SHARE:g} of the full layers' tokens"
        yield Line(name="sliding pool", value=f"{pool.sliding_tokens:,} tokens", how=how)
    if plan.concurrency is not None:
        how = f"{pool.tokens:,} tokens / {plan.context_tokens:,} of context"
        if pool.state_slots is not None:
            how += f", or {pool.state_slots:,} slots / {plan.shape.slots_per_request}"
        yield Line(name="worst-case requests", value=f"{plan.concurrency:.2f}", how=how)


def _tier(plan: KvPlan, tier: TierCapacity) -> Line:
    chunk = f"{tier.chunk_bytes:,} B for each chunk of {tier.chunk_tokens} tokens"
    if tier.tier is not Tier.RAM:
        chunk += f", {SEAL_BYTES * plan.objects_per_chunk} B of encryption in it"
    name = f"{tier.tier.value} tier"
    if tier.tokens is None or tier.capacity_bytes is None:
        return Line(name=name, value="no bound", how=f"{chunk}; set its size to have one")
    how = f"{tier.full_at:g} of {_size(tier.capacity_bytes)}, then eviction begins; {chunk}"
    return Line(name=name, value=f"{tier.tokens:,} tokens", how=how)


def _corpus(plan: KvPlan, corpus: Corpus) -> Iterator[Line]:
    how = f"{corpus.held_tokens:,} tokens in whole pages x {plan.bytes_per_token:,} B"
    yield Line(name=f"corpus of {corpus.tokens:,}", value=_size(corpus.bytes), how=how)
    if corpus.share_of_pool is not None:
        value = f"{corpus.share_of_pool:.1%}"
        yield Line(name="share of the pool", value=value, how="held for as long as it is wanted")
    value = f"{max(corpus.left_tokens, 0):,} tokens"
    how = f"{plan.context_tokens:,} of context - {corpus.tokens:,}"
    yield Line(name="left for questions", value=value, how=how)


def _notes(plan: KvPlan) -> Iterator[str]:
    yield from _problems(plan)
    if plan.weights is None:
        yield (
            "the weights aren't known, so neither is the pool: give the folder with the weight "
            "files, or --weights-gib"
        )
    elif plan.weights.note is not None:
        yield plan.weights.note
    if plan.weights is not None and plan.pool is None:
        yield "without --gpu or --gpu-memory-gib the pool isn't known"
    if plan.layout.masked_layers:
        yield (
            f"{plan.layout.masked_layers} layers look back {plan.layout.window_tokens:,} tokens "
            "only, but SGLang keeps all of their KV"
        )
    if plan.tiers is None:
        yield (
            "the tiers aren't planned: this model keeps KV of several kinds, which LMCache stores "
            "only with --separate-object-groups"
        )


def _problems(plan: KvPlan) -> Iterator[str]:
    memory, corpus = plan.memory, plan.corpus
    if memory is not None and memory.budget_bytes <= 0:
        yield (
            f"it doesn't fit: the weights need {_size(memory.weight_bytes)} on each GPU, which "
            f"leaves {_size(-memory.budget_bytes)} too little; use a larger GPU, more of them "
            "(--tp), or quantised weights"
        )
    elif plan.pool is not None and plan.pool.tokens < plan.context_tokens:
        yield (
            f"the pool is smaller than the context window: a prompt of more than "
            f"{plan.pool.tokens:,} tokens is refused"
        )
    if corpus is not None and not corpus.fits_window:
        yield f"the corpus doesn't fit the context window of {plan.context_tokens:,} tokens"
    if corpus is not None and corpus.fits_pool is False:
        yield "the corpus doesn't fit the pool"


def problems(plan: KvPlan) -> tuple[str, ...]:
    """What makes the plan one that won't work."""
    return tuple(_problems(plan))


def _mib(mib: float) -> str:
    return f"{mib / 1024:,.2f} GiB"


def _size(size: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20)):
        if abs(size) >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size:,.0f} B"
