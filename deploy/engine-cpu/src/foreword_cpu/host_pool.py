"""Copies between the engine's KV pool and HiCache's host pool, in torch.

Stands in for three operators of `sgl_kernel.kvcacheio`, which `pool_host/mha.py` binds only on
CUDA, HIP and XPU (lines 60-88), and for pinning: host memory cannot be pinned where there is no
device. Serves `--hicache-io-backend direct` with `--hicache-mem-layout layer_first` or
`page_first_direct`.

In this module (t) is the number of tokens moved, (p) pages of `page_size` tokens, (s) slots of the
device pool, (h, d) KV heads and head size. Slots of one page are consecutive.

Source: sglang/srt/mem_cache/pool_host/mha.py:513-545 (load), 654-672 (back up);
pool_host/base.py:183 (pin_memory) (sglang 0.5.23).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor


def transfer_kv_direct(
    src_layers: Sequence[Tensor],
    dst_layers: Sequence[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    page_size: int,
) -> None:
    """Copy tokens between pools of layout `layer_first`: both sides (s, h, d), one per layer."""
    for source, target in zip(src_layers, dst_layers, strict=True):
        rows = source.index_select(0, src_indices)
        target.index_copy_(0, dst_indices, rows.view(-1, *target.shape[1:]))


def transfer_kv_per_layer_direct_pf_lf(
    src_ptrs: Sequence[Tensor],
    dst_ptrs: Sequence[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    layer_id: int,
    page_size: int,
) -> None:
    """Load one layer: host (pages, layers, page_size, h, d) to device (s, h, d)."""
    pages = page_numbers(src_indices, page_size)
    for source, target in zip(src_ptrs, dst_ptrs, strict=True):
        rows = source[:, layer_id].index_select(0, pages)
        target.index_copy_(0, dst_indices, rows.reshape(-1, *target.shape[1:]))


def transfer_kv_all_layer_direct_lf_pf(
    src_ptrs: Sequence[Tensor],
    dst_ptrs: Sequence[Tensor],
    src_indices: Tensor,
    dst_indices: Tensor,
    page_size: int,
) -> None:
    """Back up all layers: device (s, h, d) each, K layers then V, to one host pool for each."""
    pages = page_numbers(dst_indices, page_size)
    num_layers = len(src_ptrs) // len(dst_ptrs)
    for number, target in enumerate(dst_ptrs):
        for layer in range(num_layers):
            rows = src_ptrs[number * num_layers + layer].index_select(0, src_indices)
            target[:, layer].index_copy_(0, pages, rows.view(-1, *target.shape[2:]))


def page_numbers(indices: Tensor, page_size: int) -> Tensor:
    """(p,) page of each whole page of slots in `indices` (t = p * page_size)."""
    return indices.view(-1, page_size)[:, 0] // page_size


def _unpinned(init: Callable[..., None]) -> Callable[..., None]:
    def without_pinning(self: object, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **{**kwargs, "pin_memory": False})

    return without_pinning


def install() -> None:
    """Bind the operators in SGLang's MHA host pool and turn pinning off in every host pool."""
    from sglang.srt.mem_cache.pool_host import mha
    from sglang.srt.mem_cache.pool_host.base import HostKVCache

    HostKVCache.__init__ = _unpinned(HostKVCache.__init__)
    mha.transfer_kv_direct = transfer_kv_direct
    mha.transfer_kv_per_layer_direct_pf_lf = transfer_kv_per_layer_direct_pf_lf
    mha.transfer_kv_all_layer_direct_lf_pf = transfer_kv_all_layer_direct_lf_pf
