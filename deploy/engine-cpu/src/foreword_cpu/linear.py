"""Linear layers and the LM head, by what is quickest for the number of rows.

Stands in for `UnquantizedLinearMethod.process_weights_after_loading` (quantization/unquant.py:568),
the last line of `.apply` (unquant.py:614), and the product in `LogitsProcessor._compute_lm_head`
(logits_processor.py:1199): all three are torch's F.linear, which gives the work to MKL.

- One row, a decode step: `foreword_cpu.row_kernel`.
- More rows, a prompt: oneDNN with a packed weight. For the few rows that follow a cached prefix,
  MKL took about 1.5 times as long on a processor that is not Intel's.

The copies cost memory: half of the weights for one row, and the weights again for oneDNN, which is
left out for large matrices. A weight that is changed after loading is not seen.

Source: sglang/srt/layers (sglang 0.5.23).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn import functional

Tensor = torch.Tensor

PACKED_FOR_ROWS: Final = 16
"""Rows of input that oneDNN chooses the layout for. Any number can be computed from it."""

PACKED_UP_TO_BYTES: Final = 32 * 2**20
"""Models whose matrices are larger (from about a billion parameters) are not packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A float32 (out, in) weight and what was made from it.

    Attributes:
        packed: the weight in oneDNN's layout, or None.
        one_row: the product with (1, in), or None.
    """

    weight: Tensor
    packed: Tensor | None = None
    one_row: Callable[[Tensor], Tensor] | None = None


def pack(weight: Tensor) -> Tensor | None:
    """A float32 (out, in) weight in oneDNN's layout; None where that is not to be had."""
    if weight.dtype != torch.float32 or weight.nbytes > PACKED_UP_TO_BYTES:
        return None
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_FOR_ROWS)
    return packed


def product(x: Tensor, prepared: Prepared, bias: Tensor | None) -> Tensor:
    """(t, out) float32 product of (t, in) with a weight."""
    if len(x) == 1 and prepared.one_row is not None:
        row = prepared.one_row(x)
        return row if bias is None else row.add_(bias)
    if len(x) == 1 or prepared.packed is None:
        return functional.linear(x, prepared.weight, bias)
    pointwise = torch.ops.mkldnn._linear_pointwise.default
    result: Tensor = pointwise(x, prepared.packed, bias, "none", [], "")
    return result


def through(layer: Any, x: Tensor) -> Tensor:
    """x (t, in) through one of SGLang's float32 linear layers, its bias included."""
    return product(x, layer.foreword_prepared, layer.bias)


def install() -> None:
    """Wrap the three methods."""
    from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod

    original_process = UnquantizedLinearMethod.process_weights_after_loading
    original_apply = UnquantizedLinearMethod.apply

    def process_weights_after_loading(method: Any, layer: Any) -> None:
        original_process(method, layer)
        if layer.weight.dtype == torch.float32:
            layer.foreword_prepared = _prepare(layer.weight.data)

    def apply(method: Any, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        prepared = getattr(layer, "foreword_prepared", None)
        if prepared is None or x.dim() != 2 or x.dtype != torch.float32:
            result: Tensor = original_apply(method, layer, x, bias)
            return result
        return product(x, prepared, bias)

    UnquantizedLinearMethod.process_weights_after_loading = process_weights_after_loading
    UnquantizedLinearMethod.apply = apply
    _install_head()


def _install_head() -> None:
    from sglang.srt.layers.logits_processor import LogitsProcessor
    from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

    original = LogitsProcessor._compute_lm_head

    def compute_lm_head(
        processor: Any, hidden: Tensor, head: Any, embedding_bias: Any = None, **how: Any
    ) -> Tensor:
        plain = (
            len(hidden) == 1
            and type(head) in (ParallelLMHead, VocabParallelEmbedding)
            and hidden.dtype == head.weight.dtype == torch.float32
            and embedding_bias is None
        )
        if not plain:
            result: Tensor = original(processor, hidden, head, embedding_bias, **how)
            return result
        if not hasattr(head, "foreword_prepared"):
            head.foreword_prepared = _prepare(head.weight.data, packed=False)
        return product(hidden, head.foreword_prepared, None)

    LogitsProcessor._compute_lm_head = compute_lm_head


def _prepare(weight: Tensor, *, packed: bool = True) -> Prepared:
    # Imported by the one process that loads weights: it compiles.
    from foreword_cpu import row_kernel

    return Prepared(
        weight=weight,
        packed=pack(weight) if packed else None,
        one_row=row_kernel.for_weight(weight.contiguous()),
    )
