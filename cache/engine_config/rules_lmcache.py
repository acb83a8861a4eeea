"""FW710 to FW714, FW721, FW722, FW739 to FW741: the engine's side of LMCache.

Source: sglang 0.5.23, srt/arg_groups/kv_cache_hook.py:433-470, kv_shard_hook.py:194,
mamba_hook.py:95, dllm_hook.py:76, srt/mem_cache/registry.py (`create_tree_cache`); lmcache 0.5.6,
integration/sglang/unified_lmcache_mp_connector.py, v1/distributed/api.py:143,
v1/multiprocess/config.py (worker reaping).
"""

import re
from collections.abc import Callable, Mapping

from cache.engine_config.deployment import Deployment, Pair
from cache.engine_config.found import Found, found, missing
from cache.engine_config.own_files import LMCACHE_CLASSIC
from cache.engine_config.view import Process, Program, is_loopback
from prompts.lint.findings import Confidence, Severity

_GUARD = "foreword_guard"
_MQ_TIMEOUT = "lmcache.mp.mq_timeout"
_HEARTBEAT = "lmcache.mp.heartbeat_interval"
_LONG_S = 30.0
_DEFAULT_HEARTBEAT_S = 10.0
_DEFAULT_REAP_S = 120.0
_BEATS = 3
_TEMPORARY = re.compile(r"^/(tmp|var/tmp|dev/shm|run)/|\$\{?TMPDIR|mktemp")
# LMCache's classic keys -> what says the same to `lmcache server`.
_INSTEAD = {
    "cache_policy": "--eviction-policy",
    "chunk_size": "--chunk-size",
    "gds_path": "--gds-l1-path",
    "local_cpu": "--l1-size-gb",
    "local_disk": "--l2-adapter with the type fs_native",
    "max_local_cpu_size": "--l1-size-gb",
    "max_local_disk_size": "max_capacity_gb in an --l2-adapter",
    "pre_caching_hash_algorithm": "--hash-algorithm",
    "remote_serde": "serde in an --l2-adapter",
    "remote_url": "--l2-adapter with the type resp",
}

Holds = Callable[[Process, str], bool]


def lmcache_findings(deployment: Deployment) -> Found:
    """What LMCache and SGLang refuse, ignore or wait for."""
    for pair in deployment.pairs:
        yield from _hicache(pair.engine)
        yield from _refused(pair.engine)
        yield from _guard(pair.engine)
        yield from _address(pair)
        yield from _model(pair.engine)
        yield from _beats(pair)
    for engine in deployment.of(Program.ENGINE):
        yield from _ignored_variables(engine)
    for client in deployment.of(Program.TIER_CLIENT):
        yield from _ignored_keys(client)
        yield from _timeout(client)


def _hicache(engine: Process) -> Found:
    setting = engine.last("enable_hierarchical_cache")
    if setting is not None and engine.on("enable_hierarchical_cache"):
        yield found(
            "FW710",
            "SGLang takes either HiCache or LMCache and refuses to start with both; leave "
            f"{setting.spelling} out, or --enable-lmcache.",
            setting,
        )


def _is_on(engine: Process, name: str) -> bool:
    return engine.on(name)


def _above_one(engine: Process, name: str) -> bool:
    number = engine.number(name)
    return number is not None and number > 1


def _is_given(engine: Process, name: str) -> bool:
    return engine.text(name).lower() not in ("", "null", "none")


def _is_buffer_only(engine: Process, name: str) -> bool:
    return engine.text(name) == "buffer_only"


# Setting -> when it clashes with LMCache, and the words for it.
_REFUSED: Mapping[str, tuple[Holds, str]] = {
    "attn_dp_size": (_above_one, "DP attention"),
    "dcp_size": (_above_one, "decode context parallelism"),
    "disable_radix_cache": (_is_on, "a switched-off prefix tree"),
    "disaggregation_mode": (_is_given, "prefill and decode in different engines"),
    "enable_dp_attention": (_is_on, "DP attention"),
    "enable_int8_mamba_checkpoint": (_is_on, "int8 Mamba checkpoints"),
    "enable_kv_cache_sharding": (_is_on, "KV sharding"),
    "enable_streaming_session": (_is_on, "streaming sessions"),
    "enable_unified_cache_external_linker": (_is_on, "the external cache linker"),
    "hicache_host_memory_mode": (_is_buffer_only, "HiCache's buffer_only mode"),
    "speculative_algorithm": (_is_given, "speculative decoding"),
}
# Setting -> the words for what makes SGLang run without LMCache and not say so.
_OVERRULED = {
    "dllm_algorithm": "diffusion decoding",
    "radix_cache_backend": "another cache backend",
}


def _refused(engine: Process) -> Found:
    for name, (clashes, words) in _REFUSED.items():
        setting = engine.last(name)
        if setting is not None and setting.known and clashes(engine, name):
            yield found(
                "FW711",
                f"SGLang refuses to start with --enable-lmcache and {words}; leave "
                f"{setting.spelling} out, or use HiCache instead of LMCache where it allows it.",
                setting,
            )
    for name, words in _OVERRULED.items():
        setting = engine.last(name)
        if setting is not None and setting.known and _is_given(engine, name):
            yield found(
                "FW711",
                f"With {words} SGLang runs without LMCache although --enable-lmcache is given, so "
                f"nothing reaches the tiers; leave {setting.spelling} out.",
                setting,
            )


def _guard(engine: Process) -> Found:
    plugins = engine.environment.get("SGLANG_PLUGINS")
    if plugins is not None and plugins.known and not _loads_guard(plugins.text):
        yield found("FW712", f"{_WAITS}; add {_GUARD} to SGLANG_PLUGINS.", plugins)
        return
    if engine.guarded or not engine.whole or (engine.resolved and engine.guarded is None):
        return
    confidence = Confidence.CONFIRMED if engine.guarded is False else Confidence.SUSPECTED
    message = f"{_WAITS}; start it with python -m {_GUARD}.engine, which brings the guard along."
    yield found("FW712", message, engine.place("enable_lmcache"), confidence=confidence)


_WAITS = (
    "LMCache's look-ups have no deadline: when the tier server is slow or gone, requests wait for "
    "ever unless Foreword's guard plugin is loaded"
)


def _loads_guard(plugins: str) -> bool:
    names = [name.strip() for name in plugins.split(",") if name.strip()]
    return not names or _GUARD in names


def _address(pair: Pair) -> Found:
    engine = pair.engine
    told = {"LMCACHE_CONFIG_FILE", "LMCACHE_MP_HOST"} & set(engine.environment)
    if engine.lacks("lmcache_config_file") and not engine.resolved and not told:
        yield missing(
            "FW713",
            "SGLang isn't told where the tier server is and refuses to start; add "
            "--lmcache-config-file with a YAML file that holds mp_host and mp_port.",
            engine,
            "lmcache_config_file",
        )
    if pair.client is not None and not pair.client.text("mp_host"):
        message = (
            "The file doesn't say where the tier server is, and SGLang refuses to start with it; "
            "add mp_host and mp_port."
        )
        yield found("FW713", message, pair.client.place("mp_host"))
    elif pair.client is not None and pair.tier is not None:
        yield from _same_address(pair.client, pair.tier, engine)


def _same_address(client: Process, tier: Process, engine: Process) -> Found:
    port, listens = client.number("mp_port", 5555), tier.number("port", 5555)
    if port is not None and listens is not None and port != listens:
        yield found(
            "FW714",
            f"SGLang looks for the tier server at port {port:.0f}, which listens at {listens:.0f}; "
            "make mp_port and --port the same.",
            client.place("mp_port"),
        )
    host = client.text("mp_host").removeprefix("tcp://")
    if is_loopback(host) and _in_other_containers(engine, tier):
        yield found(
            "FW714",
            f"{host} is the engine's own container, and the tier server is in another; set mp_host "
            f"to {tier.container.name if tier.container else 'its name'}.",
            client.place("mp_host"),
        )


def _in_other_containers(engine: Process, tier: Process) -> bool:
    one, other = engine.container, tier.container
    if one is None or other is None or one.name == other.name:
        return False
    return not (one.host_network and other.host_network) and "localhost" not in other.aliases


def _model(engine: Process) -> Found:
    setting = engine.last("model_path")
    if setting is None:
        return
    if "@" in setting.text:
        yield found(
            "FW722",
            "LMCache refuses a model name with an @, and the model path is that name; give the "
            "model another path.",
            setting,
        )
    if _TEMPORARY.search(setting.text):
        yield found(
            "FW721",
            "The tiers keep KV under the model's path as it is given here. One in a temporary "
            "folder is another one after the next start, or the same with other weights; give the "
            "model a path that stays and that only this model has.",
            setting,
        )


def _ignored_keys(client: Process) -> Found:
    for setting in client.settings:
        if setting.name in LMCACHE_CLASSIC:
            yield found("FW739", _ignored(setting.spelling), setting)


def _ignored_variables(engine: Process) -> Found:
    for name, setting in engine.environment.items():
        key = name.removeprefix("LMCACHE_").lower()
        if name.startswith("LMCACHE_") and key in LMCACHE_CLASSIC:
            yield found("FW739", _ignored(name, key), setting)


def _ignored(spelling: str, key: str | None = None) -> str:
    instead = _INSTEAD.get(key or spelling)
    advice = f"say it to lmcache server: {instead}" if instead else "leave it out"
    return (
        f"SGLang reads only mp_host, mp_port and extra_config of LMCache's settings; {spelling} "
        f"has no effect; {advice}."
    )


def _timeout(client: Process) -> Found:
    if not client.text("mp_host"):
        return
    seconds = client.number(_MQ_TIMEOUT, 300.0)
    if seconds is not None and seconds > _LONG_S:
        yield found(
            "FW740",
            f"A call to a tier server that is gone takes {seconds:g} s to fail; set {_MQ_TIMEOUT} "
            "in extra_config to a few seconds.",
            client.place(_MQ_TIMEOUT),
        )


def _beats(pair: Pair) -> Found:
    if pair.tier is None or pair.client is None:
        return
    beat = pair.client.number(_HEARTBEAT, _DEFAULT_HEARTBEAT_S)
    reap = pair.tier.number("worker_reap_timeout_seconds", _DEFAULT_REAP_S)
    if beat is None or not reap or _BEATS * beat <= reap:
        return
    yield found(
        "FW741",
        f"The tier server forgets an engine after {reap:g} s of silence, and the engine speaks "
        f"every {beat:g} s; lower {_HEARTBEAT} or raise --worker-reap-timeout-seconds to three "
        "beats.",
        pair.client.place(_HEARTBEAT),
        severity=Severity.ERROR if beat >= reap else None,
    )
