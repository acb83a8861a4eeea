"""Attention over KV that lies in pages of a pool, copied as little as possible. Pure torch.

A request's tokens lie in slots of the pool, in few runs of consecutive slots: the cached prefix was
written at once, and so was what came after it. A run is a view of the pool, so decoding reads the
pool where it is. SGLang's own torch backend gathers the whole sequence, for each layer, for each
token.

Shapes: (n) tokens of the sequence, (e) new ones, (q) query heads, (h) KV heads, (d) head size,
(slots) of the pool. q is a multiple of h, query heads of one KV head are neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

Tensor = torch.Tensor

MOST_RUNS = 8
"""With more runs than this, gathering is cheaper than a pair of products for each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive slots that hold consecutive tokens."""

    start: int
    stop: int


def find_runs(slots: Tensor) -> list[Run]:
    """The runs of a request's slots, in token order.

    Args:
        slots: (n,) integer slot of each token, n >= 1.
    """
    breaks = (slots[1:] != slots[:-1] + 1).nonzero().flatten()
    firsts = torch.cat([breaks.new_zeros(1), breaks + 1])
    lasts = torch.cat([breaks, breaks.new_full((1,), len(slots) - 1)])
    return [
        Run(start=start, stop=stop + 1)
        for start, stop in zip(slots[firsts].tolist(), slots[lasts].tolist(), strict=True)
    ]


def read(pool: Tensor, slots: Tensor, runs: Sequence[Run]) -> Tensor:
    """(n, h, d) rows of the pool: a view when they are one run, else a copy."""
    if len(runs) == 1:
        return pool[runs[0].start : runs[0].stop]
    if len(runs) <= MOST_RUNS:
        return torch.cat([pool[run.start : run.stop] for run in runs])
    return pool.index_select(0, slots)


def decode(
    query: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    slots: Tensor,
    runs: Sequence[Run],
    scale: float,
) -> Tensor:
    """Attention of one new token to the whole sequence, itself included.

    Args:
        query: (q, d).
        k_pool: (slots, h, d), of the query's dtype.
        v_pool: (slots, h, d).
        slots: (n,) slot of each token.
        runs: `find_runs(slots)`.
        scale: factor of the scores.

    Returns:
        (q, d), new.
    """
    if len(runs) > MOST_RUNS:
        k_pool, v_pool = k_pool.index_select(0, slots), v_pool.index_select(0, slots)
        runs = [Run(start=0, stop=len(slots))]
    num_kv_heads = k_pool.shape[1]
    grouped = (query * scale).view(num_kv_heads, -1, query.shape[-1])
    scores = [torch.bmm(grouped, k_pool[run.start : run.stop].permute(1, 2, 0)) for run in runs]
    weights = (scores[0] if len(scores) == 1 else torch.cat(scores, -1)).softmax(-1)
    output = torch.zeros_like(grouped)
    taken = 0
    for run in runs:
        share = weights[..., taken : taken + run.stop - run.start]
        output.baddbmm_(share, v_pool[run.start : run.stop].transpose(0, 1))
        taken += run.stop - run.start
    return output.view_as(query)


def extend(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Causal attention of a sequence's last e tokens to all n.

    SGLang's torch backend pads the queries to n rows, so that a cached prefix is paid for again.

    Args:
        query: (e, q, d).
        keys: (n, h, d), n >= e.
        values: (n, h, d).
        scale: factor of the scores.

    Returns:
        (e, q, d).
    """
    num_new, num_heads, size = query.shape
    num_tokens, num_kv_heads, _ = keys.shape
    groups = num_heads // num_kv_heads
    # KV heads as the batch and a broadcast view for the group: nothing is repeated in memory.
    grouped = query.view(num_new, num_kv_heads, groups, size).permute(1, 2, 0, 3)
    keys, values = (
        x.transpose(0, 1).unsqueeze(1).expand(-1, groups, -1, -1) for x in (keys, values)
    )
    mask = None
    if num_new < num_tokens:
        mask = torch.ones(num_new, num_tokens, dtype=torch.bool).tril(num_tokens - num_new)
    output = scaled_dot_product_attention(
        grouped, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale
    )
    return output.permute(2, 0, 1, 3).reshape(num_new, num_heads, size)
