"""Docker Compose files: services with commands, environments, ports and IPC namespaces.

Source: the Compose specification (command, environment, interpolation, ipc, ports, shm_size).
"""

from collections.abc import Mapping

from cache.engine_config.container_values import DOCKER_SHM_BYTES, published, size_bytes, whole
from cache.engine_config.containers import container_processes
from cache.engine_config.view import Container, Port, Process, Setting, Written
from cache.engine_config.words import substitute
from cache.engine_config.yaml_nodes import YamlNode

_HOST = "the host's"


def is_compose(root: YamlNode) -> bool:
    """Whether a document is a Compose file."""
    services = root.get("services")
    return services is not None and services.is_mapping


def read_compose(root: YamlNode) -> list[Process]:
    """The processes of all services."""
    services = root.get("services")
    if services is None:
        return []
    found: list[Process] = []
    for key, service in services.pairs:
        found += _service(key, service, services.entries)
    return found


def _service(key: YamlNode, service: YamlNode, others: Mapping[str, YamlNode]) -> list[Process]:
    name = key.text or ""
    parts = [part for part in (service.get("entrypoint"), service.get("command")) if part]
    aliases = {name, *filter(None, (service.value("container_name"), service.value("hostname")))}
    container = Container(
        name=name,
        aliases=frozenset(aliases),
        ipc=_ipc(name, service, others),
        shm_bytes=_shm(name, service, others),
        ports=tuple(port for node in _ports(service) if (port := _port(node)) is not None),
        host_network=service.value("network_mode") == "host",
    )
    return container_processes(
        parts,
        image=_text(service.get("image")),
        at=key.at,
        environment=_environment(service.get("environment")),
        container=container,
    )


def _text(node: YamlNode | None) -> str:
    return substitute((node.text if node else None) or "", {})


def _ipc(
    name: str,
    service: YamlNode,
    others: Mapping[str, YamlNode],
    seen: frozenset[str] = frozenset(),
) -> str:
    """The IPC namespace that a service is in, by the name of the one whose it is."""
    mode = _text(service.get("ipc"))
    if mode == "host":
        return _HOST
    kind, _, owner = mode.partition(":")
    if kind == "service" and owner in others and owner not in seen:
        return _ipc(owner, others[owner], others, seen | {name})
    return mode if kind == "container" else name


def _shm(name: str, service: YamlNode, others: Mapping[str, YamlNode]) -> int | None:
    """The size of /dev/shm in the IPC namespace that a service is in."""
    namespace = _ipc(name, service, others)
    if namespace not in others:
        return None
    owner = others[namespace]
    if _mounts_shm(owner):
        return None
    size = owner.get("shm_size")
    return DOCKER_SHM_BYTES if size is None else size_bytes(_text(size))


def _mounts_shm(service: YamlNode) -> bool:
    mounts = [*(_list(service, "volumes")), *(_list(service, "tmpfs"))]
    return any("/dev/shm" in (mount.text or mount.value("target") or "") for mount in mounts)


def _list(service: YamlNode, key: str) -> list[YamlNode]:
    node = service.get(key)
    return node.items if node is not None else []


def _ports(service: YamlNode) -> list[YamlNode]:
    return _list(service, "ports")


def _port(node: YamlNode) -> Port | None:
    if node.is_mapping:
        target = whole(node.value("target"))
        return Port(address=_text(node.get("host_ip")), container_port=target, at=node.at)
    return published(_text(node), node.at)


def _environment(node: YamlNode | None) -> dict[str, Setting]:
    if node is None:
        return {}
    if node.is_mapping:
        return {
            key.text or "": _variable(key.text or "", _text(value), value.at)
            for key, value in node.pairs
        }
    found = {}
    for item in node.items:
        name, _, value = (item.text or "").partition("=")
        found[name] = _variable(name, substitute(value, {}), item.at)
    return found


def _variable(name: str, value: str, at: Written) -> Setting:
    return Setting(name=name, spelling=name, values=(value,), at=at)
