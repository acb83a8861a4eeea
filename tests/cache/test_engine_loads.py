"""SGLang's `/v1/loads` as a value."""

import json

import pytest

from cache.engine_loads import parse_loads
from cache.errors import EngineLoadsError

RANK = {
    "timestamp": 1.0,
    "dp_rank": 0,
    "num_running_reqs": 1,
    "num_waiting_reqs": 2,
    "num_used_tokens": 320,
    "max_total_num_tokens": 12000,
    "total_prefill_uncached_tokens": 5000,
    "total_prefill_busy_us": 2_500_000,
    "memory": {
        "weight_gb": 0.025,
        "kv_cache_gb": 0.092,
        "graph_gb": 0.0,
        "token_capacity": 12000,
    },
}


def body(*ranks: object) -> bytes:
    return json.dumps({"timestamp": "now", "version": "0.5.23", "loads": ranks}).encode()


def test_one_rank() -> None:
    loads = parse_loads(body(RANK))
    assert (loads.uncached_tokens, loads.busy_s) == (5000, 2.5)
    assert (loads.pool_tokens, loads.used_tokens) == (12000, 320)
    assert loads.kv_pool_bytes == round(0.092 * 2**30)
    assert loads.rank_pool_tokens == 12000


def test_ranks_add_up_but_memory_is_that_of_one() -> None:
    loads = parse_loads(body(RANK, RANK | {"dp_rank": 1}))
    assert (loads.uncached_tokens, loads.busy_s, loads.pool_tokens) == (10000, 5.0, 24000)
    assert loads.rank_pool_tokens == 12000


def test_an_engine_that_tells_nothing_of_its_memory() -> None:
    loads = parse_loads(body({key: RANK[key] for key in RANK if key != "memory"}))
    assert loads.kv_pool_bytes is None
    assert loads.weight_bytes is None


@pytest.mark.parametrize(
    "text", [b"", b"not json", b"{}", b'{"loads": []}', b'{"loads": [{}]}', b'{"loads": [7]}']
)
def test_anything_else_is_an_error_that_says_why(text: bytes) -> None:
    with pytest.raises(EngineLoadsError, match="/v1/loads can't be read"):
        parse_loads(text)
