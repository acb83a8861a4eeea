"""The programs' own configuration files: redis.conf, LMCache's YAML, SGLang's `--config` YAML."""

import shlex
from collections.abc import Iterator

from cache.engine_config.known_flags import sglang_flags
from cache.engine_config.view import Process, Program, Setting, Written
from cache.engine_config.yaml_nodes import YamlNode
from cache.errors import EngineConfigError
from prompts.lint.source_file import SourceFile

# Enough of Redis' directives to know its configuration by.
_REDIS_WORDS = frozenset(
    {
        "appendfsync", "appendonly", "bind", "databases", "dir", "io-threads", "loglevel",
        "maxclients", "maxmemory", "maxmemory-policy", "port", "protected-mode", "requirepass",
        "save", "tcp-backlog", "timeout",
    }
)  # fmt: skip
# Read by LMCache from the YAML that SGLang's --lmcache-config-file names.
LMCACHE_READ = frozenset({"mp_host", "mp_port", "extra_config"})
# What the same file holds for LMCache inside an engine's process: its main keys.
LMCACHE_CLASSIC = frozenset(
    {
        "blend_check_layers", "blend_min_tokens", "blend_recompute_ratios", "cache_policy",
        "chunk_size", "controller_pull_url", "enable_async_loading", "enable_blending",
        "enable_controller", "enable_kv_events", "enable_p2p", "enable_pd",
        "external_lookup_client", "gds_buffer_size", "gds_path", "internal_api_server_enabled",
        "lmcache_instance_id", "local_cpu", "local_disk", "max_local_cpu_size",
        "max_local_disk_size", "nixl_backends", "numa_mode", "pre_caching_hash_algorithm",
        "remote_serde", "remote_storage_plugins", "remote_url", "reserve_local_cpu_size",
        "retrieve_locations", "save_decode_cache", "save_unfull_chunk", "storage_plugins",
        "store_location", "use_gds", "use_layerwise",
    }
)  # fmt: skip


def is_redis_conf(source: SourceFile) -> bool:
    """Whether most lines of a file begin with a directive of Redis."""
    firsts = [line.split()[0].lower() for line in _lines(source)]
    known = sum(word in _REDIS_WORDS for word in firsts)
    return bool(firsts) and known * 2 >= len(firsts)


def read_redis_conf(source: SourceFile) -> list[Process]:
    """The Redis that is started with the file."""
    settings: list[Setting] = []
    offset = 0
    for line in source.text.splitlines(keepends=True):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            start = offset + line.index(bare[0])
            at = Written(source=source, start=start, stop=start + len(bare))
            settings.append(_directive(bare, at))
        offset += len(line)
    at = settings[0].at if settings else Written(source=source, start=0, stop=0)
    return [Process(program=Program.REDIS, at=at, settings=tuple(settings))]


def is_lmcache_yaml(root: YamlNode) -> bool:
    """Whether a document is LMCache's settings for an engine."""
    return bool((LMCACHE_READ | LMCACHE_CLASSIC) & set(root.entries))


def read_lmcache_yaml(root: YamlNode) -> list[Process]:
    """What SGLang's connector to LMCache is told; keys of `extra_config` are settings too."""
    settings = [_entry(key, value) for key, value in root.pairs]
    extra = root.get("extra_config")
    settings += [_entry(key, value) for key, value in (extra.pairs if extra else ())]
    return [Process(program=Program.TIER_CLIENT, at=settings[0].at, settings=tuple(settings))]


def is_sglang_yaml(root: YamlNode) -> bool:
    """Whether a document holds SGLang's flags as keys."""
    known = [key for key in root.entries if sglang_flags().find(_flag(key)) is not None]
    return bool(known) and len(known) * 2 >= len(root.entries)


def read_sglang_yaml(root: YamlNode) -> list[Process]:
    """The engine that is started with `--config FILE`; its command line may say more.

    Source: sglang 0.5.23, srt/utils/server_args_config_parser.py.
    """
    settings = [_sglang_entry(key, value) for key, value in root.pairs]
    whole = any(setting.name == "model_path" for setting in settings)
    at = settings[0].at
    return [Process(program=Program.ENGINE, at=at, settings=tuple(settings), whole=whole)]


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _sglang_entry(key: YamlNode, value: YamlNode) -> Setting:
    setting = _entry(key, value)
    flag = sglang_flags().find(_flag(setting.spelling))
    name = flag.name if flag is not None else setting.spelling.replace("-", "_")
    return Setting(name=name, spelling=setting.spelling, values=setting.values, at=setting.at)


def _entry(key: YamlNode, value: YamlNode) -> Setting:
    name = key.text or ""
    values = tuple(item.text or "" for item in value.items) or (value.text or "",)
    at = Written(source=key.source, start=key.at.start, stop=max(key.at.stop, value.at.stop))
    if value.is_mapping:
        at = key.at
    return Setting(name=name, spelling=name, values=values, at=at)


def _lines(source: SourceFile) -> Iterator[str]:
    for line in source.text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def _directive(line: str, at: Written) -> Setting:
    try:
        name, *values = shlex.split(line)
    except ValueError as error:
        reason = f"line {at.place.line}: {error}"
        raise EngineConfigError(path=at.source.path, reason=reason) from error
    written = name.lower()
    return Setting(name=written.replace("-", "_"), spelling=written, values=tuple(values), at=at)
