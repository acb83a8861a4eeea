"""Linear layers that also keep their weight in oneDNN's layout.

Stands in for `UnquantizedLinearMethod.process_weights_after_loading` (quantization/unquant.py:568)
and the last line of `.apply` (unquant.py:614), `F.linear`. torch gives that to MKL, which is quick
for one row (a decode step) and, on processors that are not Intel's, slow for the few rows that
follow a cached prefix: there oneDNN with a packed weight took about two thirds of the time.

Keeping both costs a second copy of the weights, so only small ones are packed.

Source: sglang/srt/layers/quantization/unquant.py (sglang 0.5.23).
"""

from typing import Any, Final

import torch
from torch.nn import functional

Tensor = torch.Tensor

PACKED_FOR_ROWS: Final = 16
"""Rows of input that oneDNN chooses the layout for. Any number can be computed from it."""

PACKED_UP_TO_BYTES: Final = 32 * 2**20
"""Models whose matrices are larger (from about a billion parameters) are not kept twice."""


def pack(weight: Tensor) -> Tensor | None:
    """A float32 (out, in) weight in oneDNN's layout; None where that is not to be had."""
    if weight.dtype != torch.float32 or weight.nbytes > PACKED_UP_TO_BYTES:
        return None
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_FOR_ROWS)
    return packed


def product(x: Tensor, weight: Tensor, packed: Tensor | None, bias: Tensor | None) -> Tensor:
    """(t, out) float32 product of (t, in) with a weight (out, in) and its packed copy."""
    if packed is None or len(x) == 1:
        return functional.linear(x, weight, bias)
    pointwise = torch.ops.mkldnn._linear_pointwise.default
    result: Tensor = pointwise(x, packed, bias, "none", [], "")
    return result


def through(layer: Any, x: Tensor) -> Tensor:
    """x (t, in) through one of SGLang's linear layers, its bias included."""
    return product(x, layer.weight, layer.foreword_packed, layer.bias)


def install() -> None:
    """Wrap the two methods."""
    from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod

    original_process = UnquantizedLinearMethod.process_weights_after_loading
    original_apply = UnquantizedLinearMethod.apply

    def process_weights_after_loading(method: Any, layer: Any) -> None:
        original_process(method, layer)
        layer.foreword_packed = pack(layer.weight.data)

    def apply(method: Any, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        packed = getattr(layer, "foreword_packed", None)
        if packed is None or x.dim() != 2 or x.dtype != torch.float32:
            result: Tensor = original_apply(method, layer, x, bias)
            return result
        return product(x, layer.weight, packed, bias)

    UnquantizedLinearMethod.process_weights_after_loading = process_weights_after_loading
    UnquantizedLinearMethod.apply = apply
