"""What the layers of a model keep for each token, and for each request.

```
KvLayout
├── full        HeadLayers | LatentLayers   one slot a token in each of these layers
├── sliding     HeadLayers | None           in a smaller pool of their own
└── state       StateLayers | None          constant for each request, however long
```
"""

from dataclasses import dataclass
from enum import StrEnum


class AttentionKind(StrEnum):
    """How attention heads share their keys and values."""

    MHA = "multi-head attention"
    GQA = "grouped-query attention"
    MQA = "multi-query attention"
    MLA = "multi-head latent attention"
    NONE = "no attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLayers:
    """Layers that keep a key and a value of each KV head."""

    count: int
    query_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int

    @property
    def kind(self) -> AttentionKind:
        """By the number of KV heads."""
        if self.count == 0:
            return AttentionKind.NONE
        if self.kv_heads == 1:
            return AttentionKind.MQA
        return AttentionKind.MHA if self.kv_heads == self.query_heads else AttentionKind.GQA

    def elements(self, *, ranks: int) -> int:
        """Numbers kept for one token on one of `ranks` GPUs; with fewer heads than GPUs each GPU
        keeps one.

        Source: sglang 0.5.23, ModelConfig.get_num_kv_heads.
        """
        heads = max(1, self.kv_heads // ranks)
        return self.count * heads * (self.head_dim + self.value_dim)

    def derivation(self, *, ranks: int) -> str:
        """The same as a product."""
        heads = max(1, self.kv_heads // ranks)
        return (
            f"{self.count} layers x {heads} KV heads x ({self.head_dim} + {self.value_dim}) "
            "numbers of key and value"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentLayers:
    """Layers that keep one compressed vector a token (DeepSeek's MLA), whole on every GPU."""

    count: int
    rank: int
    rope_dim: int

    @property
    def kind(self) -> AttentionKind:
        """Always MLA."""
        return AttentionKind.MLA

    def elements(self, *, ranks: int) -> int:
        """Numbers kept for one token; every rank keeps them all."""
        return self.count * (self.rank + self.rope_dim)

    def derivation(self, *, ranks: int) -> str:
        """The same as a product."""
        return f"{self.count} layers x ({self.rank} latent + {self.rope_dim} rotary) numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayers:
    """Layers with a state of constant size for each request (Mamba, linear attention).

    Numbers are of one layer on one GPU; sizes in bytes are of one number.
    """

    count: int
    conv_elements: int
    conv_size: int
    recurrent_elements: int
    recurrent_size: int
    slots_per_request: int

    @property
    def bytes_per_slot(self) -> int:
        """One state of all layers."""
        conv = self.conv_elements * self.conv_size
        return self.count * (conv + self.recurrent_elements * self.recurrent_size)

    @property
    def derivation(self) -> str:
        """The same as a product."""
        return (
            f"{self.count} layers x ({self.conv_elements:,} convolution numbers x "
            f"{self.conv_size} B + {self.recurrent_elements:,} state numbers x "
            f"{self.recurrent_size} B)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayout:
    """All of a model's layers, as SGLang keeps them.

    Attributes:
        window_tokens: how far `sliding` layers look back, or `masked_layers`, which only mask:
            SGLang keeps all of their KV, as of any other layer.
    """

    full: HeadLayers | LatentLayers
    sliding: HeadLayers | None = None
    state: StateLayers | None = None
    window_tokens: int | None = None
    masked_layers: int = 0
