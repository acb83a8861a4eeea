"""The container that `docker run` (or podman) makes, from the words in front of the program."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from cache.engine_config.container_values import DOCKER_SHM_BYTES, published, size_bytes
from cache.engine_config.located import LocatedWord
from cache.engine_config.view import Container, Setting

_RUNNERS = frozenset({"docker", "podman", "nerdctl"})
_SHORT = {"-p": "--publish", "-e": "--env", "--net": "--network"}
_HOST = "the host's"


def run_container(words: Sequence[LocatedWord]) -> Container | None:
    """The container, or None where the words run none."""
    if not _runs(words):
        return None
    options = list(_options(words))
    values = {name: word.text for name, word in options}
    name = values.get("--name", "")
    ipc = values.get("--ipc", "")
    size = values.get("--shm-size")
    shm = DOCKER_SHM_BYTES if size is None else size_bytes(size)
    ports = [published(w.text, w.at) for name, w in options if name == "--publish"]
    return Container(
        name=name or "the container",
        aliases=frozenset({name} - {""}),
        # Each container has a namespace of its own, unless it says otherwise.
        ipc=_HOST if ipc == "host" else ipc or f"{name}@{words[0].at.start}",
        shm_bytes=None if ipc else shm,
        ports=tuple(port for port in ports if port is not None),
        host_network=values.get("--network") == "host",
    )


def run_environment(words: Sequence[LocatedWord]) -> dict[str, Setting]:
    """The variables that are given to the container."""
    found = {}
    for option, word in _options(words) if _runs(words) else ():
        name, equals, value = word.text.partition("=")
        if option == "--env":
            values = (value,) if equals else ("$",)
            found[name] = Setting(name=name, spelling=name, values=values, at=word.at)
    return found


def _runs(words: Sequence[LocatedWord]) -> bool:
    texts = [word.text for word in words]
    return "run" in texts and bool(_RUNNERS.intersection(text.rpartition("/")[2] for text in texts))


def _options(words: Sequence[LocatedWord]) -> Iterator[tuple[str, LocatedWord]]:
    """Each option with the word behind it; `--ipc=host` with what is behind the sign."""
    for word, following in pairwise(words):
        option, equals, value = word.text.partition("=")
        name = _SHORT.get(option, option)
        if name.startswith("--"):
            yield name, LocatedWord(text=value, at=word.at) if equals else following
