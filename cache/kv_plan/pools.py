"""From a budget in bytes to the slots of the engine's KV pools.

Source: sglang 0.5.23, srt/model_executor/pool_configurator.py (`DefaultPoolConfigurator`,
`HybridSWAPoolConfigurator`) and srt/mem_cache/kv_cache_configurator.py (`_handle_max_mamba_cache`),
srt/mem_cache/memory_pool.py (each pool has one page more than its tokens).
"""

from dataclasses import dataclass

from cache.kv_plan.layers import KvLayout
from cache.pages import page_floor

SLIDING_SHARE = 0.8  # --swa-full-tokens-ratio
STATE_SHARE = 0.9  # --mamba-full-memory-ratio: states to KV


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """What one token costs on one GPU, in bytes.

    Attributes:
        full: in the layers that keep all.
        sliding: in the layers of the smaller pool, for each of its slots.
        slot: one request's state.
    """

    full: int
    sliding: int
    slot: int
    page_tokens: int
    slots_per_request: int

    @classmethod
    def of(
        cls, layout: KvLayout, *, number_bytes: int, ranks: int, page_tokens: int
    ) -> "PoolShape":
        """The shape of a model's KV."""
        sliding, state = layout.sliding, layout.state
        return cls(
            full=layout.full.elements(ranks=ranks) * number_bytes,
            sliding=sliding.elements(ranks=ranks) * number_bytes if sliding else 0,
            slot=state.bytes_per_slot if state else 0,
            page_tokens=page_tokens,
            slots_per_request=state.slots_per_request if state else 0,
        )

    @property
    def per_token(self) -> float:
        """Bytes that one more token of the pool costs, its share of the smaller pool included."""
        return self.full + SLIDING_SHARE * self.sliding


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The pools of one GPU.

    Attributes:
        tokens: what SGLang calls `max_total_num_tokens`.
        sliding_tokens: slots of the smaller pool; None without one.
        state_slots: `max_mamba_cache_size`; None where the model has no states.
        bytes: KV of all pools, the spare page of each included; states apart.
    """

    tokens: int
    sliding_tokens: int | None
    state_slots: int | None
    bytes: int
    state_bytes: int


def pool_for(shape: PoolShape, *, budget_bytes: int, most_tokens: int | None = None) -> Pool:
    """The pools that fit a budget; all are 0 where nothing fits.

    Args:
        most_tokens: `--max-total-tokens`.
    """
    slots, state_bytes = _states(shape, budget_bytes)
    left = max(0, budget_bytes - state_bytes)
    tokens = int(left // shape.per_token)
    if most_tokens is not None:
        tokens = min(tokens, most_tokens)
    return _pool(shape, tokens, slots=slots, state_bytes=state_bytes)


def pool_of(shape: PoolShape, *, tokens: int, state_slots: int | None = None) -> Pool:
    """The pools of an engine whose token count is known."""
    state_bytes = (state_slots + 1) * shape.slot if state_slots is not None else 0
    return _pool(shape, tokens, slots=state_slots, state_bytes=state_bytes)


def _states(shape: PoolShape, budget_bytes: int) -> tuple[int | None, int]:
    """Slots for states and their bytes, one spare slot included."""
    if not shape.slot:
        return None, 0
    share = budget_bytes * STATE_SHARE / (1 + STATE_SHARE)
    slots = max(0, int((share - shape.slot) // shape.slot))
    return slots, (slots + 1) * shape.slot


def _pool(shape: PoolShape, tokens: int, *, slots: int | None, state_bytes: int) -> Pool:
    page = shape.page_tokens
    tokens = page_floor(max(0, tokens), page_size=page)
    sliding = page_floor(int(tokens * SLIDING_SHARE), page_size=page) if shape.sliding else None
    size = (tokens + page) * shape.full
    if sliding is not None:
        size += (sliding + page) * shape.sliding
    return Pool(
        tokens=tokens,
        sliding_tokens=sliding,
        state_slots=slots,
        bytes=size,
        state_bytes=state_bytes,
    )
