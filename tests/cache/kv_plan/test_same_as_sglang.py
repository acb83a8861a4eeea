"""Every figure that is read from a config.json, against SGLang's own reading of the same file."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from cache.kv_plan import PlanOptions, kv_layout, make_plan, parse_model_config
from cache.kv_plan.memory import prefill_graph_count
from tests import kv_plan_configs

pytestmark = pytest.mark.engine

_ASK = Path(__file__).with_name("ask_sglang.py")
_NOT_SERVED = ("JAMBA", "DEEPSEEK_V32")
MODELS = {
    name: facts
    for name, facts in vars(kv_plan_configs).items()
    if isinstance(facts, MappingProxyType) and name not in _NOT_SERVED
}


def shared(name: str, ranks: int) -> bool:
    """Whether the model's attention heads can be shared evenly, as SGLang asks."""
    heads = parse_model_config(MODELS[name]).integer("num_attention_heads")
    return heads % ranks == 0


@pytest.fixture(scope="module")
def sglang(engine_python: Path) -> Mapping[str, Any]:
    """What SGLang says of each; importing it takes most of a minute."""
    question = json.dumps({name: dict(facts) for name, facts in MODELS.items()})
    env = dict(os.environ) | {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    answer = subprocess.run(
        [engine_python, _ASK], input=question, env=env, capture_output=True, text=True, timeout=300
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    told = json.loads(answer.stdout.splitlines()[-1])
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize("name", sorted(MODELS))
def test_layers_types_and_window(name: str, sglang: Mapping[str, Any]) -> None:
    told = sglang["models"][name]
    plan = make_plan(parse_model_config(MODELS[name]), PlanOptions())
    assert plan.context_tokens == told["context"]
    assert plan.dtype == told["dtype"]
    assert plan.layout.full.count == told["full_layers"]
    sliding = plan.layout.sliding.count if plan.layout.sliding else 0
    assert sliding == told["sliding_layers"]


@pytest.mark.parametrize(
    ("name", "ranks"),
    [(name, ranks) for name in sorted(MODELS) for ranks in (1, 2, 8) if shared(name, ranks)],
)
def test_kv_and_states_on_each_gpu(name: str, ranks: int, sglang: Mapping[str, Any]) -> None:
    told = sglang["models"][name]
    layout = kv_layout(parse_model_config(MODELS[name]), ranks=ranks)
    per_layer = layout.full.elements(ranks=ranks) / layout.full.count
    assert per_layer == told["elements"][str(ranks)]
    state = layout.state.bytes_per_slot if layout.state else 0
    assert state == told["state_bytes"][str(ranks)]


@pytest.mark.parametrize("largest", [2048, 8192])
def test_prefill_graphs(largest: int, sglang: Mapping[str, Any]) -> None:
    assert prefill_graph_count(largest) == sglang["prefill_graphs"][str(largest)]
