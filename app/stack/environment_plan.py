"""What the engine's environment is made from, where it goes, and how one knows it is good."""

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.stack.deploy_files import DeployFiles, environment_digest

# The venv takes 1.5 GB and grows to 2 as Python compiles; pip's cache and unpacking take the rest.
ENGINE_BYTES = 3_500_000_000
CHECK_MODULE = "foreword_guard.check"


@dataclass(frozen=True, slots=True)
class EngineEnvironment:
    """A finished environment."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """What to make and where.

    Attributes:
        path: named by the digest of what it is made from.
        check_module: run as ``python -m``; exit status 0 says that the environment is good.
        needs_bytes: free space to begin with, checked before anything is fetched.
    """

    files: DeployFiles
    path: Path
    base_env: Mapping[str, str]
    check_module: str = CHECK_MODULE
    needs_bytes: int = ENGINE_BYTES

    @property
    def engines(self) -> Path:
        return self.path.parent

    @property
    def marker(self) -> Path:
        return self.path / "complete.json"


def plan_environment(
    deploy: DeployFiles,
    *,
    engines: Path,
    base_env: Mapping[str, str],
    check_module: str = CHECK_MODULE,
    needs_bytes: int = ENGINE_BYTES,
) -> EnvironmentPlan:
    """The plan for these sources and this Python; reads the sources once.

    Args:
        engines: the folder of all environments.
        base_env: the user's environment variables, pip's configuration among them.
    """
    return EnvironmentPlan(
        files=deploy,
        path=engines / environment_digest(deploy, python_tag=python_tag()),
        base_env=base_env,
        check_module=check_module,
        needs_bytes=needs_bytes,
    )


def python_tag() -> str:
    """The Python and machine that the environment is for: ``cpython-311-x86_64``."""
    return f"{sys.implementation.cache_tag}-{platform.machine()}"
