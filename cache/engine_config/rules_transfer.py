"""FW715, FW728 to FW731, FW737, FW738, FW742: how KV gets from the engine to the tier and is kept
there.

Source: lmcache 0.5.6, v1/multiprocess/server.py:231 (transfer modes), :434 (shared memory),
v1/multiprocess/token_hasher.py:118, v1/distributed/storage_controllers/eviction_controller.py:353
(quotas), integration/sglang/unified_lmcache_mp_connector.py (chunk and page, sparse groups); sglang
0.5.23, srt/configs/model_config.py (`is_hybrid_swa_model`).
"""

import re

from cache.engine_config.deployment import Deployment, Pair
from cache.engine_config.found import Found, found, missing
from cache.engine_config.view import Process, Program, adapters
from prompts.lint.findings import Confidence, Severity

_LMCACHE_DRIVEN = "lmcache_driven"
_CHUNK_TOKENS = 256
_GIB = 1 << 30
# Models with sliding windows or recurrent states in some layers, by the words in their names.
_HYBRID = re.compile(
    r"llama-?4|gpt-?oss|gemma-?4|deepseek-?v4|mimo-?v2|step-?3\.[57]|laguna|qwen-?3-?next|qwen-?3\.5"
    r"|kimi-?linear|kimi-?k3|nemotron-?h|nemotron-nano-\d+b-v2|nemotron-3|falcon-?h1|jamba|mamba|zamba"
    r"|granite-?4\.\d+-h|bamba|lfm-?2|jet-nemotron|ring-.*linear|minimax-text",
    re.IGNORECASE,
)


def transfer_findings(deployment: Deployment, chunk_tokens: int | None = None) -> Found:
    """What is wrong between an engine and its tier.

    Args:
        chunk_tokens: the tier's chunk, where no tier is among the processes.
    """
    for pair in deployment.pairs:
        yield from _chunk(pair, chunk_tokens)
        yield from _cpu_modes(pair)
        yield from _hybrid(pair)
        yield from _apart(pair)
    for tier in deployment.of(Program.TIER):
        yield from _shared_memory(tier)
        yield from _isolated_lru(tier)
        yield from _hash(tier)


def _chunk(pair: Pair, chunk_tokens: int | None) -> Found:
    tier = pair.tier
    chunk = tier.number("chunk_size", _CHUNK_TOKENS) if tier is not None else chunk_tokens
    page = pair.engine.number("page_size")
    if not chunk or not page or chunk % page == 0:
        return
    at = tier.last("chunk_size") if tier is not None else None
    yield found(
        "FW715",
        f"A chunk of {chunk:.0f} tokens is no multiple of the engine's page of {page:.0f}, so "
        f"SGLang refuses to start; set --chunk-size to {page * max(1, round(chunk / page)):.0f}, "
        "or --page-size to a divisor of the chunk.",
        at or pair.engine.place("page_size"),
    )


def _mode(tier: Process) -> str | None:
    setting = tier.last("supported_transfer_mode")
    if setting is not None:
        return setting.text if setting.known else None
    return _LMCACHE_DRIVEN if tier.whole else None


def _cpu_modes(pair: Pair) -> Found:
    if not pair.on_cpu:
        return
    forced = "lmcache.mp.mp_transfer_mode"
    if pair.client is not None and pair.client.text(forced) == _LMCACHE_DRIVEN:
        yield found(
            "FW728",
            "On a CPU this mode writes KV beside the engine's own memory: look-ups hit and the "
            f"answers are wrong; leave {forced} out.",
            pair.client.place(forced),
        )
    if pair.tier is None:
        return
    if _mode(pair.tier) == _LMCACHE_DRIVEN:
        yield missing(
            "FW728",
            "An engine on a CPU moves its KV itself, which this tier server doesn't offer; add "
            "--supported-transfer-mode auto.",
            pair.tier,
            "supported_transfer_mode",
        )
    elif pair.tier.lacks("shm_name"):
        yield missing(
            "FW729",
            "Without shared memory every chunk is pickled through a socket; add --shm-name with a "
            "name that stays the same over restarts, and --no-l1-use-lazy.",
            pair.tier,
            "shm_name",
        )


def _shared_memory(tier: Process) -> Found:
    name = tier.last("shm_name")
    if name is None or not name.text:
        return
    if _mode(tier) == _LMCACHE_DRIVEN:
        yield found(
            "FW728",
            "--shm-name has no effect in the mode lmcache_driven, which is the default; add "
            "--supported-transfer-mode auto, or leave it out.",
            name,
            severity=Severity.WARNING,
        )
        return
    size = tier.number("l1_size_gb")
    room = tier.container.shm_bytes if tier.container is not None else None
    if size is None or room is None or size * _GIB <= room:
        return
    yield found(
        "FW738",
        f"/dev/shm of {tier.container.name if tier.container else 'the container'} has "
        f"{room / _GIB:.3g} GiB and L1 wants {size:g}: LMCache then pickles every chunk instead, "
        "and says so only in its log; raise shm_size above --l1-size-gb.",
        name,
    )


def _hybrid(pair: Pair) -> Found:
    model = pair.engine.last("model_path")
    if pair.tier is None or model is None or not pair.tier.lacks("separate_object_groups"):
        return
    kind = _HYBRID.search(model.text)
    if kind is None:
        return
    yield missing(
        "FW730",
        f"{model.text} seems to have layers with sliding windows or recurrent states, which "
        "LMCache keeps right only apart from the others; add --separate-object-groups.",
        pair.tier,
        "separate_object_groups",
    )


def _isolated_lru(tier: Process) -> Found:
    setting = tier.last("eviction_policy")
    if setting is not None and setting.text == "IsolatedLRU":
        yield found("FW731", _NO_QUOTA, setting)
    for adapter in adapters(tier):
        eviction = adapter.fields.get("eviction")
        if isinstance(eviction, dict) and eviction.get("eviction_policy") == "IsolatedLRU":
            yield found("FW731", _NO_QUOTA, adapter.setting)


_NO_QUOTA = (
    "Under IsolatedLRU a salt without a quota may keep nothing: all of its KV goes at the next "
    "eviction. Quotas are set by HTTP only and are lost at a restart; use LRU, or set a quota for "
    "every salt after each start (PUT /quota/SALT)."
)


def _apart(pair: Pair) -> Found:
    tier, engine = pair.tier, pair.engine
    if tier is None or tier.container is None or engine.container is None:
        return
    isolated = tier.last("isolated_ipc")
    if isolated is not None and tier.on("isolated_ipc"):
        message = (
            "SGLang's connector has no such mode, and both sides must agree; leave --isolated-ipc "
            "out and give engine and tier one IPC namespace."
        )
        yield found("FW737", message, isolated)
    elif tier.container.ipc != engine.container.ipc:
        yield found(
            "FW737",
            f"{engine.container.name} and {tier.container.name} have no IPC namespace in common, "
            f"so no KV can pass between them; give {tier.container.name} ipc: shareable and "
            f'{engine.container.name} ipc: "service:{tier.container.name}".',
            engine.at,
        )


def _hash(tier: Process) -> Found:
    setting = tier.last("hash_algorithm")
    if setting is None or setting.text != "builtin" or "PYTHONHASHSEED" in tier.environment:
        return
    yield found(
        "FW742",
        "Python's own hash differs in every process, so after a restart nothing in the tiers is "
        "found again; leave --hash-algorithm out (blake3), or set PYTHONHASHSEED.",
        setting,
        confidence=None if tier.container is not None else Confidence.SUSPECTED,
    )
