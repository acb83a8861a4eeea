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
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

from foreword_cpu import paged_kv

Tensor = torch.Tensor


class PagedViewBackend(TorchNativeAttnBackend):  # type: ignore[misc]
    """The torch backend; finds the runs of a batch's slots once for all layers.

    Attributes:
        reads_in_place: whether the pool holds plain float32 rows, one per slot.
    """

    def __init__(self, model_runner: Any) -> None:
        super().__init__(model_runner)
        self.reads_in_place = _holds_plain_rows(self.token_to_kv_pool)
        self._slots: list[Tensor] = []
        self._runs: list[list[paged_kv.Run]] = []

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Called before each forward, when the batch's slots have been allocated."""
        super().init_forward_metadata(forward_batch)
        table = self.req_to_token_pool.req_to_token
        rows, lengths = forward_batch.req_pool_indices.tolist(), forward_batch.seq_lens.tolist()
        self._slots = [table[row, :length] for row, length in zip(rows, lengths, strict=True)]
        self._runs = [paged_kv.find_runs(slots) for slots in self._slots]

    def store_and_attend(
        self, layer: Any, *, query: Tensor, keys: Tensor, values: Tensor, batch: Any
    ) -> Tensor:
        """Write new KV to the batch's slots and attend to all of each sequence.

        Only where `reads_in_place`.

        Args:
            layer: SGLang's `RadixAttention`.
            query: (t, q, d).
            keys: (t, h, d).
            values: (t, h, d).
            batch: SGLang's `ForwardBatch`, decode or extend.

        Returns:
            (t, q * d).
        """
        # These wait until a load of this layer from a lower tier is done.
        k_pool = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        v_pool = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        k_pool.index_copy_(0, batch.out_cache_loc, keys)
        v_pool.index_copy_(0, batch.out_cache_loc, values)
        if batch.forward_mode.is_decode():
            output = self._decode(query, k_pool, v_pool, layer.scaling)
        else:
            lengths = batch.extend_seq_lens.tolist()
            output = self._extend(query, k_pool, v_pool, lengths, layer.scaling)
        return output.view(len(query), -1)

    def _decode(self, query: Tensor, k_pool: Tensor, v_pool: Tensor, scale: float) -> Tensor:
        outputs = [
            paged_kv.decode(query[number], k_pool, v_pool, slots, runs, scale)
            for number, (slots, runs) in enumerate(zip(self._slots, self._runs, strict=True))
        ]
        return outputs[0].unsqueeze(0) if len(outputs) == 1 else torch.stack(outputs)

    def _extend(
        self, query: Tensor, k_pool: Tensor, v_pool: Tensor, lengths: list[int], scale: float
    ) -> Tensor:
        outputs = [
            paged_kv.extend(
                rows, paged_kv.read(k_pool, slots, runs), paged_kv.read(v_pool, slots, runs), scale
            )
            for rows, slots, runs in zip(
                torch.split(query, lengths), self._slots, self._runs, strict=True
            )
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _run_sdpa_forward_decode(
        self,
        query: Tensor,
        output: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        *args: Any,
        **how: Any,
    ) -> Tensor:
        if self._is_plain(args, how):
            return output.copy_(self._decode(query, k_cache, v_cache, how["scaling"]))
        original: Tensor = super()._run_sdpa_forward_decode(
            query, output, k_cache, v_cache, *args, **how
        )
        return original

    def _run_sdpa_forward_extend(
        self,
        query: Tensor,
        output: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        *args: Any,
        **how: Any,
    ) -> Tensor:
        if how["causal"] and self._is_plain(args, how):
            # After v_cache: req_to_token, req_pool_indices, seq_lens, extend_prefix_lens, this.
            lengths = args[4].tolist()
            return output.copy_(self._extend(query, k_cache, v_cache, lengths, how["scaling"]))
        original: Tensor = super()._run_sdpa_forward_extend(
            query, output, k_cache, v_cache, *args, **how
        )
        return original

    def _is_plain(self, args: tuple[Any, ...], how: dict[str, Any]) -> bool:
        """Whether this is a decoder's self-attention over the whole sequence."""
        encoder_lens = args[-1]
        return (
            self.reads_in_place
            and encoder_lens is None
            and not how["is_cross_attn"]
            and how["sliding_window_size"] is None
        )


def _holds_plain_rows(pool: Any) -> bool:
    return (
        type(pool) is MHATokenToKVPool
        and pool.store_dtype == pool.dtype == torch.float32
        and not pool.is_quantized_kv_cache
        and not pool.use_hnd
        and pool.kv_cache_layout != "vectorized_5d"
    )


def install() -> None:
    """Make `torch_native`, which SGLang picks on a CPU without AMX, this backend."""
    ATTENTION_BACKENDS["torch_native"] = PagedViewBackend
