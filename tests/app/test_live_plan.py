"""What an engine's own description tells of its GPUs."""

from collections.abc import Mapping

import pytest

from app.live_plan import engine_ranks


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
