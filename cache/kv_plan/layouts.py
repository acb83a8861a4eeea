"""How each family of models lays out its KV: one function for each.

Every one takes a config and the number of GPUs that share the model, and raises `ModelConfigError`
where a field that it needs is missing.

Source: sglang 0.5.23, srt/configs/model_config.py (`_derive_model_shapes`,
`get_total_num_kv_heads`, `get_hybrid_layer_ids`) and the config classes in srt/configs.
"""

from dataclasses import replace

from cache.errors import ModelConfigError
from cache.kv_plan.config import ModelConfig
from cache.kv_plan.layers import HeadLayers, KvLayout, LatentLayers
from cache.kv_plan.states import kimi_state, mamba_state

_KV_HEAD_KEYS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)


def _heads(config: ModelConfig, count: int) -> HeadLayers:
    query_heads = config.integer("num_attention_heads")
    head_dim = _head_dim(config, query_heads)
    return HeadLayers(
        count=count,
        query_heads=query_heads,
        kv_heads=_kv_heads(config, query_heads),
        head_dim=head_dim,
        value_dim=config.integer("v_head_dim", 0) or head_dim,
    )


def _head_dim(config: ModelConfig, query_heads: int) -> int:
    if config.has("head_dim"):
        return config.integer("head_dim")
    hidden = config.integer("hidden_size")
    if not query_heads:
        reason = '"num_attention_heads" is 0 and there is no "head_dim"'
        raise ModelConfigError(path=config.path, reason=reason)
    return hidden // query_heads


def _kv_heads(config: ModelConfig, query_heads: int) -> int:
    if config.text.get("multi_query") is True:
        return 1
    for key in _KV_HEAD_KEYS:
        if config.has(key):
            return config.integer(key)
    return query_heads


def plain(config: ModelConfig, ranks: int) -> KvLayout:
    """Every layer keeps all of its KV, also one that attends only to a window."""
    layers = config.integer("num_hidden_layers")
    masked = _masked_layers(config, layers)
    window = config.integer("sliding_window") if masked else None
    return KvLayout(full=_heads(config, layers), window_tokens=window, masked_layers=masked)


def _masked_layers(config: ModelConfig, layers: int) -> int:
    if not config.has("sliding_window") or config.text.get("use_sliding_window") is False:
        return 0
    if config.integer("sliding_window") >= config.context_tokens:
        return 0
    if config.has("layer_types"):
        return list(config.words("layer_types")).count("sliding_attention")
    if config.architecture == "Gemma2ForCausalLM":
        return (layers + 1) // 2
    if config.has("sliding_window_pattern"):
        # Gemma 3: every n-th layer attends to all.
        return layers - layers // config.integer("sliding_window_pattern")
    return layers


def sliding_pool(config: ModelConfig, ranks: int) -> KvLayout:
    """gpt-oss: sliding layers have a pool of their own, a share of the full layers' tokens."""
    kinds = list(config.words("layer_types"))
    full, sliding = kinds.count("full_attention"), kinds.count("sliding_attention")
    if full + sliding != config.integer("num_hidden_layers") or not full or not sliding:
        reason = '"layer_types" doesn\'t name each layer full_attention or sliding_attention'
        raise ModelConfigError(path=config.path, reason=reason)
    return KvLayout(
        full=_heads(config, full),
        sliding=_heads(config, sliding),
        window_tokens=config.integer("sliding_window"),
    )


def latent(config: ModelConfig, ranks: int) -> KvLayout:
    return KvLayout(full=_latent_layers(config, config.integer("num_hidden_layers")))


def _latent_layers(config: ModelConfig, count: int) -> LatentLayers:
    return LatentLayers(
        count=count,
        rank=config.integer("kv_lora_rank"),
        rope_dim=config.integer("qk_rope_head_dim"),
    )


def gated_delta(config: ModelConfig, ranks: int) -> KvLayout:
    """Qwen3-Next and Qwen3.5: every n-th layer attends, the others are gated delta nets."""
    layers = config.integer("num_hidden_layers")
    if config.has("layer_types"):
        attending = list(config.words("layer_types")).count("full_attention")
    else:
        attending = layers // max(1, config.integer("full_attention_interval"))
    state = mamba_state(
        config,
        count=layers - attending,
        inner=config.integer("linear_value_head_dim") * config.integer("linear_num_value_heads"),
        groups=config.integer("linear_num_key_heads"),
        heads=config.integer("linear_num_value_heads"),
        head_dim=config.integer("linear_value_head_dim"),
        state_size=config.integer("linear_key_head_dim"),
        kernel=config.integer("linear_conv_kernel_dim"),
        ranks=ranks,
    )
    return KvLayout(full=_heads(config, attending), state=state)


def falcon_h1(config: ModelConfig, ranks: int) -> KvLayout:
    """Every layer has both: attention and a Mamba 2 mixer."""
    layers = config.integer("num_hidden_layers")
    inner = config.integer("mamba_d_ssm", 0) or (
        config.integer("mamba_expand") * config.integer("hidden_size")
    )
    heads = config.integer("mamba_n_heads")
    state = mamba_state(
        config,
        count=layers,
        inner=inner,
        groups=config.integer("mamba_n_groups"),
        heads=heads,
        head_dim=inner // heads,
        state_size=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv"),
        ranks=ranks,
    )
    return KvLayout(full=_heads(config, layers), state=state)


def nemotron_h(config: ModelConfig, ranks: int) -> KvLayout:
    attending, mixing = _nemotron_layers(config)
    heads, head_dim = config.integer("mamba_num_heads"), config.integer("mamba_head_dim")
    state = mamba_state(
        config,
        count=mixing,
        inner=heads * head_dim,
        groups=config.integer("n_groups"),
        heads=heads,
        head_dim=head_dim,
        state_size=config.integer("ssm_state_size"),
        kernel=config.integer("conv_kernel"),
        ranks=ranks,
    )
    return KvLayout(full=_heads(config, attending), state=state)


def _nemotron_layers(config: ModelConfig) -> tuple[int, int]:
    """Attention and Mamba layers, from the list or from a pattern such as `M-M*-`."""
    if config.has("layers_block_type"):
        kinds = list(config.words("layers_block_type"))
        return kinds.count("attention"), kinds.count("mamba")
    pattern = config.text.get("hybrid_override_pattern")
    if not isinstance(pattern, str):
        reason = 'config.json lacks "hybrid_override_pattern" or "layers_block_type"'
        raise ModelConfigError(path=config.path, reason=reason)
    return pattern.count("*"), pattern.count("M")


def granite_hybrid(config: ModelConfig, ranks: int) -> KvLayout:
    kinds = list(config.words("layer_types"))
    mixing = kinds.count("mamba") + kinds.count("linear_attention")
    attending = kinds.count("attention") + kinds.count("full_attention")
    if not mixing:
        return KvLayout(full=_heads(config, attending))
    state = mamba_state(
        config,
        count=mixing,
        inner=config.integer("mamba_expand") * config.integer("hidden_size"),
        groups=config.integer("mamba_n_groups"),
        heads=config.integer("mamba_n_heads"),
        head_dim=config.integer("mamba_d_head"),
        state_size=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv"),
        ranks=ranks,
        size=4,
    )
    return KvLayout(full=_heads(config, attending), state=state)


def lfm2(config: ModelConfig, ranks: int) -> KvLayout:
    kinds = list(config.words("layer_types"))
    state = mamba_state(
        config,
        count=kinds.count("conv") + kinds.count("short_conv"),
        inner=config.integer("hidden_size"),
        groups=1,
        heads=ranks,
        head_dim=config.integer("hidden_size"),
        state_size=0,
        kernel=config.integer("conv_L_cache"),
        ranks=ranks,
    )
    return KvLayout(full=_heads(config, kinds.count("full_attention")), state=state)


def kimi_linear(config: ModelConfig, ranks: int) -> KvLayout:
    linear = replace(config, text=config.part("linear_attn_config"))
    kda = linear.text.get("kda_layers")
    if not isinstance(kda, list):
        reason = 'config.json lacks "linear_attn_config" with its "kda_layers"'
        raise ModelConfigError(path=config.path, reason=reason)
    state = kimi_state(
        config,
        count=len(kda),
        heads=linear.integer("num_heads"),
        head_dim=linear.integer("head_dim"),
        kernel=linear.integer("short_conv_kernel_size"),
        ranks=ranks,
    )
    attending = config.integer("num_hidden_layers") - len(kda)
    return KvLayout(full=_latent_layers(config, attending), state=state)
