"""Facts of well-known models, as their published config.json files state them: only what decides
the size of KV and weights."""

from collections.abc import Mapping
from types import MappingProxyType


def _of(architecture: str, **facts: object) -> Mapping[str, object]:
    return MappingProxyType({"architectures": [architecture], "torch_dtype": "bfloat16", **facts})


def _qwen3(layers: int, hidden: int, heads: int, inner: int) -> Mapping[str, object]:
    return _of(
        "Qwen3ForCausalLM",
        model_type="qwen3",
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
        tie_word_embeddings=False,
    )


def _llama(layers: int, hidden: int, heads: int, inner: int) -> Mapping[str, object]:
    return _of(
        "LlamaForCausalLM",
        model_type="llama",
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        rope_scaling={
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        tie_word_embeddings=False,
    )


LLAMA_31_8B = _llama(32, 4096, 32, 14336)
LLAMA_31_70B = _llama(80, 8192, 64, 28672)
QWEN3_8B = _qwen3(36, 4096, 32, 12288)
QWEN3_14B = _qwen3(40, 5120, 40, 17408)
QWEN3_14B_AWQ = MappingProxyType(
    {
        **QWEN3_14B,
        "torch_dtype": "float16",
        "quantization_config": {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 128,
            "zero_point": True,
        },
    }
)
QWEN3_32B = _qwen3(64, 5120, 64, 25600)
QWEN3_30B_A3B = _of(
    "Qwen3MoeForCausalLM",
    model_type="qwen3_moe",
    hidden_size=2048,
    intermediate_size=6144,
    moe_intermediate_size=768,
    num_experts=128,
    num_hidden_layers=48,
    num_attention_heads=32,
    num_key_value_heads=4,
    head_dim=128,
    vocab_size=151936,
    max_position_embeddings=40960,
    tie_word_embeddings=False,
)
DEEPSEEK_V3 = _of(
    "DeepseekV3ForCausalLM",
    model_type="deepseek_v3",
    hidden_size=7168,
    num_hidden_layers=61,
    num_attention_heads=128,
    num_key_value_heads=128,
    kv_lora_rank=512,
    q_lora_rank=1536,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    max_position_embeddings=163840,
    quantization_config={
        "quant_method": "fp8",
        "fmt": "e4m3",
        "weight_block_size": [128, 128],
    },
)
DEEPSEEK_V32 = MappingProxyType(
    {**DEEPSEEK_V3, "architectures": ["DeepseekV32ForCausalLM"], "index_topk": 2048}
)
GEMMA3_27B = _of(
    "Gemma3ForConditionalGeneration",
    model_type="gemma3",
    text_config={
        "model_type": "gemma3_text",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
    vision_config={"num_hidden_layers": 27, "hidden_size": 1152},
)
GEMMA3_4B = _of(
    "Gemma3ForConditionalGeneration",
    model_type="gemma3",
    text_config={
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
)
GPT_OSS_120B = _of(
    "GptOssForCausalLM",
    model_type="gpt_oss",
    hidden_size=2880,
    num_hidden_layers=36,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=64,
    layer_types=["sliding_attention", "full_attention"] * 18,
    sliding_window=128,
    max_position_embeddings=131072,
    quantization_config={"quant_method": "mxfp4"},
)
MISTRAL_7B = _of(
    "MistralForCausalLM",
    model_type="mistral",
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=32000,
    sliding_window=4096,
    max_position_embeddings=32768,
    tie_word_embeddings=False,
)
MIXTRAL_8X7B = MappingProxyType(
    {
        **MISTRAL_7B,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 8,
        "sliding_window": None,
    }
)
QWEN3_NEXT_80B = _of(
    "Qwen3NextForCausalLM",
    model_type="qwen3_next",
    hidden_size=2048,
    num_hidden_layers=48,
    num_attention_heads=16,
    num_key_value_heads=2,
    head_dim=256,
    full_attention_interval=4,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_value_head_dim=128,
    max_position_embeddings=262144,
)
NEMOTRON_H_8B = _of(
    "NemotronHForCausalLM",
    model_type="nemotron_h",
    hidden_size=4096,
    num_hidden_layers=52,
    hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    mamba_num_heads=128,
    mamba_head_dim=64,
    n_groups=8,
    ssm_state_size=128,
    conv_kernel=4,
    max_position_embeddings=8192,
)
FALCON_H1_7B = _of(
    "FalconH1ForCausalLM",
    model_type="falcon_h1",
    hidden_size=3072,
    num_hidden_layers=44,
    num_attention_heads=12,
    num_key_value_heads=2,
    head_dim=128,
    mamba_d_ssm=3072,
    mamba_n_heads=24,
    mamba_d_head=128,
    mamba_n_groups=2,
    mamba_d_state=256,
    mamba_d_conv=4,
    max_position_embeddings=262144,
)
KIMI_LINEAR_48B = _of(
    "KimiLinearForCausalLM",
    model_type="kimi_linear",
    hidden_size=2304,
    num_hidden_layers=27,
    num_attention_heads=32,
    num_key_value_heads=32,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    linear_attn_config={
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "kda_layers": [n for n in range(1, 28) if n not in (4, 8, 12, 16, 20, 24, 27)],
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
    model_max_length=1048576,
)
GEMMA2_9B = _of(
    "Gemma2ForCausalLM",
    model_type="gemma2",
    hidden_size=3584,
    intermediate_size=14336,
    num_hidden_layers=42,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=256,
    sliding_window=4096,
    max_position_embeddings=8192,
    vocab_size=256000,
)
GRANITE_4_TINY = _of(
    "GraniteMoeHybridForCausalLM",
    model_type="granitemoehybrid",
    hidden_size=1536,
    num_hidden_layers=40,
    layer_types=["attention" if n in (5, 15, 25, 35) else "mamba" for n in range(40)],
    num_attention_heads=12,
    num_key_value_heads=4,
    mamba_n_heads=48,
    mamba_d_head=64,
    mamba_expand=2,
    mamba_n_groups=1,
    mamba_d_state=128,
    mamba_d_conv=4,
    max_position_embeddings=131072,
)
LFM2_1B = _of(
    "Lfm2ForCausalLM",
    model_type="lfm2",
    hidden_size=2048,
    num_hidden_layers=16,
    layer_types=["full_attention" if n in (2, 5, 8, 10, 12, 14) else "conv" for n in range(16)],
    num_attention_heads=32,
    num_key_value_heads=8,
    conv_L_cache=3,
    max_position_embeddings=128000,
)
STARCODER = MappingProxyType(
    {
        "architectures": ["GPTBigCodeForCausalLM"],
        "model_type": "gpt_bigcode",
        "torch_dtype": "float32",
        "n_embd": 6144,
        "n_head": 48,
        "n_layer": 40,
        "n_positions": 8192,
        "multi_query": True,
    }
)
JAMBA = MappingProxyType({"architectures": ["JambaForCausalLM"], "num_hidden_layers": 32})
