"""Where the engine's lock file and the two plugins lie, and a digest of them.

In a checkout they are in ``deploy/`` beside the package, in a wheel in ``app/_deploy/``.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import app
from app.stack.errors import DeployFilesMissingError

LOCK = Path("engine") / "requirements-cpu.lock"
PLUGINS = ("engine-guard", "engine-cpu")
# What building a plugin leaves beside its sources, and Python beside its modules.
NOT_SOURCES = frozenset({"__pycache__", "build", "dist"})
# The converter of the default model, whose change makes a new model.
CONVERTER = Path("engine-cpu") / "src" / "foreword_cpu" / "smollm2.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployFiles:
    """What the engine's environment is made from."""

    lock: Path
    plugins: tuple[Path, ...]


def find_deploy_files() -> DeployFiles:
    """The files that belong to this installation of Foreword.

    Raises:
        DeployFilesMissingError: neither place has them.
    """
    package = Path(app.__file__).parent
    places = (package / "_deploy", package.parent / "deploy")
    for place in places:
        if (place / LOCK).is_file():
            return DeployFiles(
                lock=place / LOCK, plugins=tuple(place / plugin for plugin in PLUGINS)
            )
    raise DeployFilesMissingError(looked_in=places)


def source_files(folder: Path) -> Iterator[Path]:
    """The files of a plugin that count, in a stable order."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        left_behind = any(part in NOT_SOURCES or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not left_behind:
            yield path


def lock_digest(lock: Path) -> str:
    """32 hex digits of a lock file's bytes."""
    return hashlib.blake2b(lock.read_bytes(), digest_size=16).hexdigest()


def environment_digest(files: DeployFiles, *, python_tag: str) -> str:
    """32 hex digits that change with the lock, a plugin's source, or the Python.

    Args:
        python_tag: what wheels are chosen by, such as ``cpython-311-x86_64``.
    """
    digest = hashlib.blake2b(python_tag.encode(), digest_size=16)
    digest.update(files.lock.read_bytes())
    for plugin in files.plugins:
        for path in source_files(plugin):
            name = f"{plugin.name}/{path.relative_to(plugin).as_posix()}"
            content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
            digest.update(f"\n{name} {content}".encode())
    return digest.hexdigest()
