"""Kubernetes manifests: the containers of pods, and of what makes pods."""

from collections.abc import Iterator

from cache.engine_config.container_values import DOCKER_SHM_BYTES, size_bytes, whole
from cache.engine_config.containers import container_processes
from cache.engine_config.view import Container, Port, Process, Setting
from cache.engine_config.yaml_nodes import YamlNode

_HOST = "the host's"


def is_kubernetes(root: YamlNode) -> bool:
    """Whether a document is a manifest."""
    return root.value("apiVersion") is not None and root.value("kind") is not None


def read_kubernetes(root: YamlNode) -> list[Process]:
    """The processes of a manifest's containers, however deep its pods' specs are."""
    found: list[Process] = []
    for number, spec in enumerate(_pod_specs(root)):
        pod = f"{_pod_name(root)}/{number}"
        for node in _long_lived(spec):
            found += _container(node, spec, pod)
    return found


def _long_lived(spec: YamlNode) -> Iterator[YamlNode]:
    """Containers, and those that start before them and stay (sidecars)."""
    for name in ("containers", "initContainers"):
        containers = spec.get(name)
        for node in containers.items if containers is not None else ():
            if name == "containers" or node.value("restartPolicy") == "Always":
                yield node


def _pod_specs(root: YamlNode) -> Iterator[YamlNode]:
    """The mappings that hold a list of containers; what many aliases name is seen once."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop(0)
        if id(node.node) in seen:
            continue
        seen.add(id(node.node))
        if node.get("containers") is not None:
            yield node
        else:
            waiting += [*node.items, *(value for _, value in node.pairs)]


def _pod_name(root: YamlNode) -> str:
    name = root.get("metadata", "name")
    return f"{root.value('kind')}/{(name.text if name else None) or ''}"


def _container(node: YamlNode, spec: YamlNode, pod: str) -> list[Process]:
    name = node.value("name") or ""
    parts = [part for part in (node.get("command"), node.get("args")) if part is not None]
    container = Container(
        name=name,
        aliases=frozenset({name, "localhost", "127.0.0.1"}),
        # The containers of a pod share its IPC namespace and its network.
        ipc=_HOST if spec.value("hostIPC") == "true" else pod,
        shm_bytes=_shm(node, spec),
        ports=tuple(_host_ports(node)),
        host_network=spec.value("hostNetwork") == "true",
    )
    return container_processes(
        parts,
        image=node.value("image") or "",
        at=(node.get("name") or node).at,
        environment=_environment(node),
        container=container,
    )


def _host_ports(node: YamlNode) -> list[Port]:
    ports = node.get("ports")
    return [
        Port(
            address=port.value("hostIP") or "",
            container_port=whole(port.value("containerPort")),
            at=port.at,
        )
        for port in (ports.items if ports else [])
        if port.value("hostPort") is not None
    ]


def _environment(node: YamlNode) -> dict[str, Setting]:
    variables = node.get("env")
    found = {}
    for variable in variables.items if variables else []:
        name = variable.value("name") or ""
        value = variable.value("value")
        written = variable.get("value") or variable
        # One that comes from a secret has a value, though not here.
        shown = value if value is not None else "$"
        found[name] = Setting(name=name, spelling=name, values=(shown,), at=written.at)
    return found


def _shm(node: YamlNode, spec: YamlNode) -> int | None:
    """The size of /dev/shm: of the volume that is mounted there, else what runtimes give."""
    mounts = node.get("volumeMounts")
    mounted = {
        mount.value("name")
        for mount in (mounts.items if mounts else [])
        if mount.value("mountPath") == "/dev/shm"
    }
    if not mounted:
        return None if spec.value("hostIPC") == "true" else DOCKER_SHM_BYTES
    volumes = spec.get("volumes")
    for volume in volumes.items if volumes else []:
        limit = volume.get("emptyDir", "sizeLimit")
        if volume.value("name") in mounted and limit is not None:
            return size_bytes(limit.text or "")
    return None
