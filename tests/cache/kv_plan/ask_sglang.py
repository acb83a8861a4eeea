"""Runs in the engine's own Python: what SGLang makes of model configs.

stdin: {name: config.json}. stdout: {name: facts}, the last line.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from sglang.srt.arg_groups.cuda_graph_hook import generate_prefill_cuda_graph_batch_sizes
from sglang.srt.configs.hybrid_arch import mambaish_config
from sglang.srt.configs.model_config import AttentionArch, ModelConfig
from sglang.srt.runtime_context import get_parallel


def facts_of(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    (folder / "config.json").write_text(json.dumps(config))
    model = ModelConfig(model_path=str(folder))
    state = mambaish_config(model)
    layers = len(list(state.full_attention_layer_ids)) if state else model.num_attention_layers
    return {
        "context": model.context_len,
        "dtype": str(model.dtype).removeprefix("torch."),
        "full_layers": len(model.full_attention_layer_ids) if model.is_hybrid_swa else layers,
        "sliding_layers": len(model.swa_attention_layer_ids) if model.is_hybrid_swa else 0,
        "elements": {ranks: elements(model, ranks) for ranks in (1, 2, 8)},
        "state_bytes": {ranks: state_bytes(state, ranks) for ranks in (1, 2, 8)},
    }


def elements(model: ModelConfig, ranks: int) -> int:
    """Numbers of one layer, as in pool_configurator.py."""
    if model.attention_arch == AttentionArch.MLA:
        return int(model.kv_lora_rank + model.qk_rope_head_dim)
    return int(model.get_num_kv_heads(ranks) * (model.head_dim + model.v_head_dim))


def state_bytes(state: Any, ranks: int) -> int | None:
    if state is None:
        return 0
    with get_parallel().override(attn_tp_size=ranks, enable_cp_tp_group_sharing=False):
        try:
            return int(state.mamba2_cache_params.mamba_cache_per_req)
        except AssertionError:
            return None  # it can't be split over so many


def main() -> None:
    configs = json.load(sys.stdin)
    found = {}
    for name, config in configs.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = facts_of(config, Path(folder))
    graphs = {size: len(generate_prefill_cuda_graph_batch_sizes(size)) for size in (2048, 8192)}
    print(json.dumps({"models": found, "prefill_graphs": graphs}))  # noqa: T201


main()
