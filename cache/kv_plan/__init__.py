"""KV sizing: from a model's config.json to bytes, tokens and requests, as SGLang counts them."""

from cache.kv_plan.architectures import architectures, kv_layout
from cache.kv_plan.config import ModelConfig, parse_model_config, read_model_config
from cache.kv_plan.corpus import Corpus
from cache.kv_plan.gpus import Gpu, find_gpu, gpu_names
from cache.kv_plan.layers import AttentionKind, HeadLayers, KvLayout, LatentLayers, StateLayers
from cache.kv_plan.memory import default_mem_fraction
from cache.kv_plan.plan import GpuMemory, KvPlan, PlanOptions, make_plan
from cache.kv_plan.plan_json import to_json
from cache.kv_plan.plan_text import render_text
from cache.kv_plan.pools import Pool, PoolShape
from cache.kv_plan.tiers import TierCapacity
from cache.kv_plan.weights import Weights

__all__ = [
    "AttentionKind",
    "Corpus",
    "Gpu",
    "GpuMemory",
    "HeadLayers",
    "KvLayout",
    "KvPlan",
    "LatentLayers",
    "ModelConfig",
    "PlanOptions",
    "Pool",
    "PoolShape",
    "StateLayers",
    "TierCapacity",
    "Weights",
    "architectures",
    "default_mem_fraction",
    "find_gpu",
    "gpu_names",
    "kv_layout",
    "make_plan",
    "parse_model_config",
    "read_model_config",
    "render_text",
    "to_json",
]
