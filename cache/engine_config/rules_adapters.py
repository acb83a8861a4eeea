"""FW732 to FW734, FW748: the L2 adapters of `lmcache server`.

Source: lmcache 0.5.6, v1/distributed/l2_adapters/ (types, `fs_native_l2_adapter.py:98` on
capacity), v1/distributed/storage_manager.py:1488 (`_should_enable_l2_eviction`),
v1/distributed/serde/; seen with corrupted and swapped files, plain and with aesgcm.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from cache.engine_config.deployment import Deployment
from cache.engine_config.found import Found, found
from cache.engine_config.view import Adapter, Program, adapters

_TYPES = frozenset(
    {
        "aerospike", "bigtable", "dax", "fault_inject", "fs", "fs_native", "hf3fs", "hfbucket",
        "mock", "mooncake_store", "native_plugin", "nixl_native", "nixl_store",
        "nixl_store_dynamic", "p2p", "plugin", "raw_block", "resp", "s3", "sagemaker-hyperpod",
        "valkey",
    }
)  # fmt: skip
# These hold KV where others can read or change it, or longer than the process lives.
_AT_REST = frozenset(
    {
        "aerospike", "bigtable", "fs", "fs_native", "hf3fs", "hfbucket", "mooncake_store",
        "nixl_native", "nixl_store", "nixl_store_dynamic", "raw_block", "resp", "s3",
        "sagemaker-hyperpod", "valkey",
    }
)  # fmt: skip
_AUTHENTICATED = "foreword_aead"
_LOSSY = frozenset({"asym_k16_v8", "fp8", "turboquant"})


def adapter_findings(deployment: Deployment) -> Found:
    """What is wrong with the storage below RAM."""
    for tier in deployment.of(Program.TIER):
        for adapter in adapters(tier):
            yield from _adapter(adapter)


def _adapter(adapter: Adapter) -> Found:
    if adapter.problem is not None:
        if adapter.setting.known:
            message = (
                f"LMCache can't read this --l2-adapter: {adapter.problem}; write one JSON object "
                'with a "type", in single quotes where a shell reads it.'
            )
            yield found("FW734", message, adapter.setting)
        return
    yield from _type(adapter)
    yield from _bound(adapter)
    yield from _serde(adapter)


def _type(adapter: Adapter) -> Found:
    if adapter.kind in _TYPES or "$" in adapter.kind:
        return
    close = get_close_matches(adapter.kind, _TYPES, n=1)
    advice = f"did you mean {close[0]}?" if close else "see lmcache server --help for those it has."
    yield found("FW734", f"LMCache has no adapter {adapter.kind}; {advice}", adapter.setting)


def _bound(adapter: Adapter) -> Found:
    capacity, eviction = adapter.fields.get("max_capacity_gb"), adapter.fields.get("eviction")
    if adapter.kind == "fs":
        message = (
            "The adapter fs has no bound and fills the disk; use fs_native with max_capacity_gb "
            "and eviction."
        )
        yield found("FW732", message, adapter.setting)
    elif capacity and eviction is None:
        yield found("FW732", f"max_capacity_gb alone bounds nothing; {_EVICT}", adapter.setting)
    elif adapter.kind == "fs_native" and not capacity:
        message = f"Nothing bounds what this adapter writes; add max_capacity_gb, and {_EVICT}"
        yield found("FW732", message, adapter.setting)


_EVICT = 'add "eviction":{"eviction_policy":"LRU"} to the adapter.'


def _serde(adapter: Adapter) -> Found:
    kinds = set(_serde_types(adapter.fields.get("serde")))
    if adapter.kind in _AT_REST and _AUTHENTICATED not in kinds:
        known = "aesgcm" in kinds
        problem = _SWAPPED if known else _PLAIN
        yield found("FW733", f'{problem}; add "serde":{{"type":"{_AUTHENTICATED}"}} and start it '
                    "with python -m foreword_guard.tier.", adapter.setting)  # fmt: skip
    for kind in sorted(kinds & _LOSSY):
        yield found(
            "FW748",
            f"The serde {kind} changes the KV that it keeps, so an answer depends on which tier "
            "its prompt came from; measure the drift (foreword doctor) before relying on it.",
            adapter.setting,
        )


_PLAIN = (
    "KV at rest is not encrypted, and a chunk that was damaged on the way is served: answers are "
    "wrong without a word"
)
_SWAPPED = (
    "aesgcm binds no chunk to its key: another chunk's file copied over is served, and a damaged "
    "one stays and spoils every look-up"
)


def _serde_types(serde: Any) -> Iterator[str]:
    """The types of a serde and of those that it is made of."""
    if isinstance(serde, dict):
        kind = serde.get("type")
        if isinstance(kind, str):
            yield kind
        for value in serde.values():
            yield from _serde_types(value)
    elif isinstance(serde, list):
        for each in serde:
            yield from _serde_types(each)
    elif isinstance(serde, str) and serde in _LOSSY:
        yield serde
