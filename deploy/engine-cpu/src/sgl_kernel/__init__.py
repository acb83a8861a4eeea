"""Stand-in for the CPU build of SGLang's kernel package, which the package index does not carry.

Every other kernel of SGLang's dense path is behind a test for AMX, and has a torch fall-back; two
are imported without one when `SGLANG_USE_CPU_ENGINE=1`: `assign_req_to_token_pool_cpu`, which each
request needs, and `copy_all_layer_kv_cache_cpu`, which only speculative decoding calls. All that is
not here can be imported, and says which kernel is missing when it is called.

Source: sglang/srt/mem_cache/allocation.py:46 and sglang/kernels/ops/kvcache/cache_move.py:10
(sglang 0.5.23).
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch

__version__ = "0.0.0+foreword"


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int | None = None,
) -> None:
    """Write the slots of newly allocated tokens into each request's row, in place.

    Args:
        req_pool_indices: (n,) rows of `req_to_token`.
        req_to_token: (requests, context) int32, changed.
        start_offset: (n,) first position to write in each row.
        end_offset: (n,) position after the last.
        out_cache_loc: slots of all n requests, one after the other.
        pool_len: length of a row; not needed here.
    """
    taken = 0
    for row, start, end in zip(
        req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True
    ):
        slots = out_cache_loc[taken : taken + end - start]
        req_to_token[row, start:end] = slots.to(req_to_token.dtype)
        taken += end - start


def __getattr__(name: str) -> Callable[..., Any]:
    """A function that says which kernel is missing when it is called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} is not in foreword-engine-cpu")

    missing.__name__ = name
    return missing
