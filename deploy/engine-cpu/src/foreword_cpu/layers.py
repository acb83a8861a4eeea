"""Faster torch for four small operations that a decode step repeats in every layer.

| stands in for | where |
|---|---|
| `UnquantizedLinearMethod.apply`, `.process_weights_after_loading` | quantization/unquant.py:568, 614 |
| `RMSNorm.forward_cpu` | layernorm.py:879 |
| `SiluAndMul.forward_cpu` | activation.py:159 |
| `MHATokenToKVPool`'s `_set_kv_buffer_impl` | mem_cache/memory_pool.py:218 |

Whatever is not float32, or uses an option of theirs, goes to the original.

Source: sglang/srt/layers and sglang/srt/mem_cache (sglang 0.5.23).
"""

from typing import Any

import torch
from sglang.srt.layers.activation import SiluAndMul
from sglang.srt.layers.layernorm import RMSNorm
from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
from torch.nn import Parameter
from torch.nn import functional as F

Tensor = torch.Tensor

_PACKED_FOR_ROWS = 16
"""Rows of input that oneDNN lays a packed weight out for: the tail of a prompt whose prefix was
cached. Other numbers of rows are computed from the same layout."""


class _Originals:
    """SGLang's own methods, kept for the inputs that are not handled here."""

    apply = UnquantizedLinearMethod.apply
    process_weights_after_loading = UnquantizedLinearMethod.process_weights_after_loading
    norm = RMSNorm.forward_native


def pack_linear_weight(method: UnquantizedLinearMethod, layer: torch.nn.Module) -> None:
    """Lay a loaded (out, in) float32 weight out as oneDNN reads it fastest, in its place."""
    weight = layer.weight
    if weight.dtype != torch.float32 or weight.dim() != 2 or not torch.backends.mkldnn.is_available():
        _Originals.process_weights_after_loading(method, layer)
        return
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.data.contiguous(), _PACKED_FOR_ROWS)
    layer.weight = Parameter(packed, requires_grad=False)


def linear(
    method: UnquantizedLinearMethod,
    layer: torch.nn.Module,
    x: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """(…, out) product of (…, in) with the layer's weight."""
    weight = layer.weight
    if not weight.is_mkldnn:
        return _Originals.apply(method, layer, x, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def rms_norm(
    norm: RMSNorm,
    x: Tensor,
    residual: Tensor | None = None,
    post_residual_addition: Tensor | None = None,
    quant_linear: torch.nn.Module | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Normalised x, and the sum of x and the residual when there is one; neither is changed."""
    plain = (
        x.dtype == torch.float32
        and norm.weight.dtype == torch.float32
        and norm.variance_size_override is None
        and post_residual_addition is None
    )
    if not plain:
        return _Originals.norm(norm, x, residual, post_residual_addition)
    if residual is None:
        return F.rms_norm(x, (norm.hidden_size,), norm.weight, norm.variance_epsilon)
    total = x + residual
    return F.rms_norm(total, (norm.hidden_size,), norm.weight, norm.variance_epsilon), total


def silu_and_mul(activation: SiluAndMul, x: Tensor) -> Tensor:
    """(…, m) from the gate and the factor in (…, 2m), without a second intermediate."""
    gate, factor = x.chunk(2, dim=-1)
    return F.silu(gate).mul_(factor)


def store_rows(pool: Tensor, slots: Tensor, rows: Tensor) -> None:
    """Write (t, …) rows to t slots of the pool."""
    pool.index_copy_(0, slots, rows)


def install() -> None:
    """Replace the methods on SGLang's classes."""
    changes: list[tuple[type, str, Any]] = [
        (UnquantizedLinearMethod, "process_weights_after_loading", pack_linear_weight),
        (UnquantizedLinearMethod, "apply", linear),
        (RMSNorm, "forward_cpu", rms_norm),
        (SiluAndMul, "forward_cpu", silu_and_mul),
    ]
    for owner, name, replacement in changes:
        setattr(owner, name, replacement)
