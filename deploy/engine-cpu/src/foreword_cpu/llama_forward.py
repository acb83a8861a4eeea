"""The layers of a Llama, in as few torch calls as they need.

Stands in for `LlamaModel.forward` and all that it calls (models/llama.py:459). At batch 1 a decode
step of SmolLM2-135M spends as long in SGLang's layers of dispatch (stage boundaries, fused-op and
quantization look-ups, the KV pool's checks: thousands of Python calls for 30 layers) as in its
matrix products. This is the same arithmetic in one loop: add and normalise, project, rotate, store,
attend.

Shapes: (t) tokens of the batch, (q) query heads, (h) KV heads, (d) head size, (m) hidden size.
All tensors are float32.

Source: sglang/srt/models/llama.py:70-300, layers/rotary_embedding/utils.py:36 (sglang 0.5.23).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from foreword_cpu.linear import through

if TYPE_CHECKING:
    from foreword_cpu.attention import PagedViewBackend

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Cosines and signed sines of each token's position, for `rotate`.

    Attributes:
        cos: (t, 1, 2, d / 2), the same half twice.
        sin: (t, 1, 2, d / 2), negative in the first half.
    """

    cos: Tensor
    sin: Tensor

    @classmethod
    def at(cls, positions: Tensor, cos_sin_cache: Tensor) -> "Rotation":
        """The rotation of each of (t,) positions, from SGLang's (positions, d) table."""
        cos, sin = cos_sin_cache.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)
        return cls(cos=torch.stack((cos, cos), -2), sin=torch.stack((-sin, sin), -2))


def rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """(t, heads, d) rotated as GPT-NeoX does: the halves of a head are the pairs' parts."""
    halves = heads.view(*heads.shape[:-1], 2, -1)
    rotated = torch.addcmul(halves * rotation.cos, halves.flip(-2), rotation.sin)
    return rotated.view(heads.shape)


def forward(
    model: Any, input_ids: Tensor, positions: Tensor, batch: Any, backend: "PagedViewBackend"
) -> Tensor:
    """(t, m) hidden states after the last norm; stores the KV of all t tokens.

    Args:
        model: SGLang's `LlamaModel`.
        input_ids: (t,) of all requests of the batch, one after the other.
        positions: (t,) int64.
        batch: SGLang's `ForwardBatch`.
        backend: the attention backend, which knows the batch's slots.
    """
    residual = model.embed_tokens(input_ids)
    rotation = Rotation.at(positions, model.layers[0].self_attn.rotary_emb.cos_sin_cache)
    update: Tensor | None = None
    for layer in model.layers:
        normed = _add_and_norm(residual, update, layer.input_layernorm)
        update = _attend(layer.self_attn, normed, rotation, batch, backend)
        normed = _add_and_norm(residual, update, layer.post_attention_layernorm)
        update = _feed_forward(layer.mlp, normed)
    return _add_and_norm(residual, update, model.norm)


def _add_and_norm(residual: Tensor, update: Tensor | None, norm: Any) -> Tensor:
    """The normalised sum; `residual` becomes the sum."""
    if update is not None:
        residual.add_(update)
    if len(residual) > 1:
        shape = residual.shape[-1:]
        return functional.rms_norm(residual, shape, norm.weight, norm.variance_epsilon)
    # torch's rms_norm is six operations on a CPU; for one row three do.
    row = residual[0]
    mean_square = row.dot(row).item() / len(row)
    scale: float = (mean_square + norm.variance_epsilon) ** -0.5
    normed: Tensor = residual * norm.weight
    return normed.mul_(scale)


def _attend(
    attention: Any, x: Tensor, rotation: Rotation, batch: Any, backend: "PagedViewBackend"
) -> Tensor:
    heads, kv_heads, size = attention.num_heads, attention.num_kv_heads, attention.head_dim
    qkv = through(attention.qkv_proj, x)
    qkv = qkv.view(-1, heads + 2 * kv_heads, size)
    # The heads of q and k are neighbours: one rotation turns both.
    rotated = rotate(qkv[:, : heads + kv_heads], rotation)
    output = backend.store_and_attend(
        attention.attn,
        query=rotated[:, :heads],
        keys=rotated[:, heads:],
        values=qkv[:, heads + kv_heads :],
        batch=batch,
    )
    return through(attention.o_proj, output)


def _feed_forward(mlp: Any, x: Tensor) -> Tensor:
    gate, up = through(mlp.gate_up_proj, x).chunk(2, dim=-1)
    return through(mlp.down_proj, functional.silu(gate).mul_(up))
