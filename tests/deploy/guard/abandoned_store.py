"""Runs in the engine's environment: an engine that reserves chunks and never writes them.

Prints how many chunks a second engine is offered after the first is gone: `python … HOST:PORT`.
"""

import sys
import time
from typing import Any

from lmcache.v1.multiprocess.custom_types import (
    IPCCacheServerKey,
    RegisterEngineDrivenContextPayload,
)
from lmcache.v1.multiprocess.transport.factory import RequestClientFactory

MODEL, TOKENS, WAIT_S = "abandoned", tuple(range(128)), 10.0


def key(request_id: str, worker_id: int | None) -> IPCCacheServerKey:
    return IPCCacheServerKey(
        model_name=MODEL,
        world_size=1,
        worker_id=worker_id,
        num_kv_readers=1,
        token_ids=TOKENS,
        start=0,
        end=len(TOKENS),
        request_id=request_id,
        cache_salt="",
    )


def register(client: Any, instance_id: int) -> None:
    payload = RegisterEngineDrivenContextPayload(
        instance_id=instance_id,
        model_name=MODEL,
        world_size=1,
        block_size=16,
        num_layers=2,
        hidden_dim_size=32,
        dtype_str="float32",
        use_mla=False,
        num_physical_slots=64,
    )
    client.register_kv_cache_engine_driven_context(payload).result(timeout=WAIT_S)


def offered(client: Any) -> int:
    """Chunks that a look-up finds."""
    client.lookup(key("reader", None), 1).result(timeout=WAIT_S)
    while True:
        chunks = client.query_prefetch_status("reader").result(timeout=WAIT_S)
        if chunks is not None:
            return int(chunks)
        time.sleep(0.02)


def main() -> None:
    client = RequestClientFactory.create(f"tcp://{sys.argv[1]}")
    register(client, 1)
    reserved = client.prepare_store(key("writer", 0), 1).result(timeout=WAIT_S)
    assert len(reserved.context["slots"]) == 2, reserved
    client.unregister_kv_cache_engine_driven_context(1).result(timeout=WAIT_S)
    register(client, 2)
    print(offered(client))  # noqa: T201
    client.unregister_kv_cache_engine_driven_context(2).result(timeout=WAIT_S)
    client.close()


if __name__ == "__main__":
    main()
