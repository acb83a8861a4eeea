"""What an engine's own description tells of its GPUs."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.engine import EngineInfo
from app.live_plan import engine_ranks, kv_objects
from tests.kv_plan_configs import DEEPSEEK_V3, LLAMA_31_70B


@pytest.mark.parametrize(
    ("settings", "ranks"),
    [
        ({}, 1),
        ({"tp_size": 8}, 8),
        ({"tp_size": 8, "dp_size": 8}, 8),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, 1),
        ({"tp_size": None}, 1),
    ],
)
def test_gpus_that_share_a_tokens_kv(settings: Mapping[str, object], ranks: int) -> None:
    assert engine_ranks(settings) == ranks


@pytest.mark.parametrize(("facts", "objects"), [(LLAMA_31_70B, 8), (DEEPSEEK_V3, 1), (None, 8)])
def test_objects_for_one_chunk(
    tmp_path: Path, facts: Mapping[str, object] | None, objects: int
) -> None:
    if facts is not None:
        (tmp_path / "config.json").write_text(json.dumps(dict(facts)))
    info = EngineInfo(
        model_path=str(tmp_path),
        tokenizer_path="",
        served_name="m",
        context_tokens=1,
        page_tokens=16,
        pool_tokens=None,
        cache_report=True,
        tiers=True,
        version="0.5.23",
        settings={"tp_size": 8},
    )
    assert kv_objects(info) == objects
