"""SGLang's torch attention backend, reading the KV pool in place (`foreword_cpu.paged_kv`).

Stands in for `TorchNativeAttnBackend._run_sdpa_forward_extend` (torch_native_backend.py:61) and
`._run_sdpa_forward_decode` (torch_native_backend.py:179). Encoder layers, cross attention, sliding
windows and a KV pool of another dtype go to the original.

Source: sglang/srt/layers/attention/torch_native_backend.py (sglang 0.5.23).
"""

from typing import Any

import torch
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.model_executor.model_runner import ModelRunner

from foreword_cpu import paged_kv

Tensor = torch.Tensor


class PagedViewBackend(TorchNativeAttnBackend):  # type: ignore[misc]
    """The torch backend with two methods replaced; finds the runs once for all layers."""

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self._slots: list[Tensor] = []
        self._runs: list[list[paged_kv.Run]] = []

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Called before each forward, when the batch's slots have been allocated."""
        super().init_forward_metadata(forward_batch)
        table = self.req_to_token_pool.req_to_token
        rows, lengths = forward_batch.req_pool_indices.tolist(), forward_batch.seq_lens.tolist()
        self._slots = [
            table[row, :length] for row, length in zip(rows, lengths, strict=True)
        ]
        self._runs = [paged_kv.find_runs(slots) for slots in self._slots]

    def _run_sdpa_forward_decode(
        self, query: Tensor, output: Tensor, k_cache: Tensor, v_cache: Tensor, *args: Any, **how: Any
    ) -> Tensor:
        if not _plain(query, k_cache, how, args):
            return super()._run_sdpa_forward_decode(query, output, k_cache, v_cache, *args, **how)
        for number, (slots, runs) in enumerate(zip(self._slots, self._runs, strict=True)):
            output[number] = paged_kv.decode(
                query[number], k_cache, v_cache, slots, runs, how["scaling"]
            )
        return output

    def _run_sdpa_forward_extend(
        self, query: Tensor, output: Tensor, k_cache: Tensor, v_cache: Tensor, *args: Any, **how: Any
    ) -> Tensor:
        if not (how["causal"] and _plain(query, k_cache, how, args)):
            return super()._run_sdpa_forward_extend(query, output, k_cache, v_cache, *args, **how)
        new_tokens = args[_EXTEND_SEQ_LENS].tolist()
        first = 0
        for num_new, slots, runs in zip(new_tokens, self._slots, self._runs, strict=True):
            rows = slice(first, first + num_new)
            keys = paged_kv.read(k_cache, slots, runs)
            values = paged_kv.read(v_cache, slots, runs)
            output[rows] = paged_kv.extend(query[rows], keys, values, how["scaling"])
            first += num_new
        return output


_EXTEND_SEQ_LENS = 4
"""Position after `v_cache`: req_to_token, req_pool_indices, seq_lens, extend_prefix_lens, this."""


def _plain(query: Tensor, k_cache: Tensor, how: dict[str, Any], args: tuple[Any, ...]) -> bool:
    """Whether this is self-attention of a decoder to a pool of the same dtype."""
    encoder_lens = args[-1]
    return (
        encoder_lens is None
        and not how["is_cross_attn"]
        and how["sliding_window_size"] is None
        and query.dtype == k_cache.dtype
    )


def install() -> None:
    """Make `torch_native`, which SGLang picks on a CPU without AMX, this backend."""
    ATTENTION_BACKENDS["torch_native"] = PagedViewBackend
