"""`LlamaForCausalLM` with the short forward, where nothing unusual is asked of it.

Source: sglang/srt/models/llama.py:548-628 (sglang 0.5.23).
"""

from typing import Any

import torch
from sglang.srt.layers.linear import (
    MergedColumnParallelLinear,
    QKVParallelLinear,
    RowParallelLinear,
)
from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding
from sglang.srt.layers.rotary_embedding.rope_variant import Llama3RotaryEmbedding
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.model_executor.forward_context import get_attn_backend
from sglang.srt.models import llama

from foreword_cpu import llama_forward
from foreword_cpu.attention import PagedViewBackend

Tensor = torch.Tensor

_SHORT_MODES = frozenset({ForwardMode.DECODE, ForwardMode.EXTEND, ForwardMode.MIXED})


class LlamaModel(llama.LlamaModel):  # type: ignore[misc]
    """SGLang's layers; their forward is `foreword_cpu.llama_forward` when it fits."""

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        forward_batch: Any,
        input_embeds: Tensor | None = None,
        pp_proxy_tensors: Any = None,
    ) -> Any:
        """Hidden states, as SGLang's own forward gives them."""
        backend = get_attn_backend()
        if (
            isinstance(backend, PagedViewBackend)
            and backend.reads_in_place
            and forward_batch.forward_mode in _SHORT_MODES
            and forward_batch.spec_info is None
            and forward_batch.encoder_lens is None
            and input_embeds is None
            and pp_proxy_tensors is None
            and not self.layers_to_capture
            and self._is_plain()
        ):
            return llama_forward.forward(self, input_ids, positions, forward_batch, backend)
        return super().forward(input_ids, positions, forward_batch, input_embeds, pp_proxy_tensors)

    def _is_plain(self) -> bool:
        """Whether the layers are float32, whole (no TP or PP), unquantized and without LoRA."""
        attention, mlp = self.layers[0].self_attn, self.layers[0].mlp
        rope = attention.rotary_emb
        return (
            self.norm.weight.dtype == torch.float32
            and self.start_layer == 0
            and self.end_layer == len(self.layers)
            and attention.num_heads == attention.total_num_heads
            and type(attention.qkv_proj) is QKVParallelLinear
            and type(attention.o_proj) is RowParallelLinear
            and type(mlp.gate_up_proj) is MergedColumnParallelLinear
            and hasattr(attention.qkv_proj, "foreword_prepared")
            and type(rope) in (RotaryEmbedding, Llama3RotaryEmbedding)
            and rope.is_neox_style
            and rope.rotary_dim == rope.head_size
        )


class LlamaForCausalLM(llama.LlamaForCausalLM):  # type: ignore[misc]
    """Found under this name by SGLang's model registry."""

    def _init_model(self, config: Any, quant_config: Any = None, prefix: str = "") -> LlamaModel:
        return LlamaModel(config, quant_config=quant_config, prefix=prefix)


EntryClass = [LlamaForCausalLM]
