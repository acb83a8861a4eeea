"""Configuration files of every kind that is known, as processes."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from cache.engine_config.compose import is_compose, read_compose
from cache.engine_config.kubernetes import is_kubernetes, read_kubernetes
from cache.engine_config.located import script_commands
from cache.engine_config.own_files import (
    is_lmcache_yaml,
    is_redis_conf,
    is_sglang_yaml,
    read_lmcache_yaml,
    read_redis_conf,
    read_sglang_yaml,
)
from cache.engine_config.programs import command_process
from cache.engine_config.server_info import is_server_info, read_server_info
from cache.engine_config.starts import opened
from cache.engine_config.view import Process
from cache.engine_config.yaml_nodes import YamlNode, documents
from cache.errors import EngineConfigError
from prompts.lint.source_file import SourceFile

_YAML_SUFFIXES = frozenset({".yaml", ".yml"})


class ConfigKind(StrEnum):
    """What a file is."""

    SERVER_INFO = "server-info"
    COMMAND = "command"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    REDIS = "redis"
    LMCACHE = "lmcache"
    SGLANG = "sglang"


_YAML: Mapping[
    ConfigKind, tuple[Callable[[YamlNode], bool], Callable[[YamlNode], list[Process]]]
] = {
    ConfigKind.COMPOSE: (is_compose, read_compose),
    ConfigKind.KUBERNETES: (is_kubernetes, read_kubernetes),
    ConfigKind.LMCACHE: (is_lmcache_yaml, read_lmcache_yaml),
    ConfigKind.SGLANG: (is_sglang_yaml, read_sglang_yaml),
}


def read_config(source: SourceFile, kind: ConfigKind | None = None) -> list[Process]:
    """The processes that a file configures.

    Args:
        kind: what it is; told by its content if it is not said.

    Raises:
        EngineConfigError: it can't be read, or is nothing that is known here.
    """
    try:
        chosen = kind or _kind(source)
        match chosen:
            case ConfigKind.SERVER_INFO:
                found = read_server_info(source)
            case ConfigKind.COMMAND:
                found = _commands(source)
            case ConfigKind.REDIS:
                found = read_redis_conf(source)
            case _:
                found = _yaml(source, chosen)
    except UnicodeDecodeError as error:
        raise EngineConfigError(path=source.path, reason="it is not UTF-8") from error
    if not found and chosen is not ConfigKind.KUBERNETES:
        raise EngineConfigError(path=source.path, reason=_UNKNOWN)
    return found


_UNKNOWN = (
    "nothing in it starts or configures SGLang, lmcache server or Redis; --engine-config-kind says "
    "what a file is"
)


def _kind(source: SourceFile) -> ConfigKind:
    if is_server_info(source):
        return ConfigKind.SERVER_INFO
    if source.path.suffix.lower() in _YAML_SUFFIXES:
        return _yaml_kind(documents(source)) or ConfigKind.COMMAND
    if is_redis_conf(source):
        return ConfigKind.REDIS
    try:
        return _yaml_kind(documents(source)) or ConfigKind.COMMAND
    except EngineConfigError:
        return ConfigKind.COMMAND


def _yaml_kind(roots: Iterable[YamlNode]) -> ConfigKind | None:
    for root in roots:
        for kind, (fits, _) in _YAML.items():
            if root.is_mapping and fits(root):
                return kind
    return None


def _yaml(source: SourceFile, kind: ConfigKind) -> list[Process]:
    fits, read = _YAML[kind]
    return [p for root in documents(source) if fits(root) for p in read(root)]


def _commands(source: SourceFile) -> list[Process]:
    read = [inner for command in script_commands(source) for inner in opened(command)]
    found = [command_process(command) for command in read]
    return [process for process in found if process is not None]
