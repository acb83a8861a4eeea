"""Linear layers whose float32 weights are laid out for oneDNN once, when the model is loaded.

Stands in for `UnquantizedLinearMethod.process_weights_after_loading` (quantization/unquant.py:568)
and the last line of `.apply` (unquant.py:614), `F.linear`. For the few rows that follow a cached
prefix, torch's F.linear takes about 1.6 times as long; for one row and for long prompts it makes
no difference. The packed weight replaces the plain one, so it needs no memory of its own.

Source: sglang/srt/layers/quantization/unquant.py (sglang 0.5.23).
"""

from typing import Any, Final

import torch
from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
from torch.nn import Parameter
from torch.nn import functional as F

Tensor = torch.Tensor

PACKED_FOR_ROWS: Final = 16
"""Rows of input that oneDNN chooses the layout for. Any number can be computed from it."""


class _Originals:
    """SGLang's own methods, for the layers that are not handled here."""

    apply = UnquantizedLinearMethod.apply
    process_weights_after_loading = UnquantizedLinearMethod.process_weights_after_loading


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(…, out) float32 product of (…, in) with a weight, packed or (out, in)."""
    if weight.is_mkldnn:
        pointwise = torch.ops.mkldnn._linear_pointwise.default
        result: Tensor = pointwise(x, weight, bias, "none", [], "")
        return result
    return F.linear(x, weight, bias)


def pack(weight: Tensor) -> Tensor:
    """A float32 (out, in) weight in oneDNN's layout; `product` takes either."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_FOR_ROWS)
    return packed


def _process_weights(method: Any, layer: torch.nn.Module) -> None:
    weight = layer.weight
    if weight.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        layer.weight = Parameter(pack(weight.data), requires_grad=False)
    else:
        _Originals.process_weights_after_loading(method, layer)


def _apply(method: Any, layer: torch.nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
    if layer.weight.is_mkldnn:
        return product(x, layer.weight, bias)
    result: Tensor = _Originals.apply(method, layer, x, bias)
    return result


def install() -> None:
    """Replace the two methods."""
    UnquantizedLinearMethod.process_weights_after_loading = _process_weights
    UnquantizedLinearMethod.apply = _apply
