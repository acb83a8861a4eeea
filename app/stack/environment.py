"""The engine's own environment: SGLang, LMCache and the two plugins in a venv under FOREWORD_CACHE.

Made once per digest of the lock file and the plugins' sources, in a folder of that name. The
marker ``complete.json`` is written last; without it, or when a check fails, the next caller
repairs what is there: pip puts in what is missing and fetches nothing twice. Callers at the same
time wait for each other.
"""

import contextlib
import errno
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.stack import files
from app.stack.deploy_files import DeployFiles, environment_digest, lock_digest, source_files
from app.stack.distributions import broken_distributions, installed_count, remove_broken
from app.stack.errors import (
    DiskFullError,
    InstallFailedError,
    UnsupportedMachineError,
    VenvFailedError,
)
from app.stack.pip_output import PipProgress, diagnose, pinned_packages
from app.stack.progress import Say
from app.stack.tool import ToolResult, run_tool, tool_environment

# The venv takes 2.1 GB; pip needs room to unpack beside it.
ENGINE_BYTES = 3_500_000_000
SAY_EVERY_S = 10.0
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


def ensure_environment(plan: EnvironmentPlan, *, say: Say) -> EngineEnvironment:
    """The environment, made or repaired if need be.

    Raises:
        EngineEnvironmentError: it could not be made; what was done is kept for the next try.
    """
    _require_linux_x86()
    with _disk_full_at(plan.engines):
        files.private_folder(plan.engines)
        lock = plan.engines / f"{plan.path.name}.lock"
        with files.locked(
            lock, on_wait=lambda: say("engine environment: waiting for another process making it")
        ):
            problem = find_problem(plan)
            if problem is None:
                return EngineEnvironment(plan.path)
            if plan.path.exists():
                say(f"engine environment: repairing it ({problem})")
            _make(plan, say=say)
    return EngineEnvironment(plan.path)


def find_problem(plan: EnvironmentPlan) -> str | None:
    """Why the environment cannot be used as it is, or None if it can."""
    if not plan.path.exists():
        return "it has not been made yet"
    if not plan.marker.exists():
        return "it is half made"
    for folder in broken_distributions(plan.path):
        return f"{folder.name.removesuffix('.dist-info')} is damaged"
    result = _check(plan)
    if not result.good:
        return result.lines[-1] if result.lines else "its check failed"
    return None


def _make(plan: EnvironmentPlan, *, say: Say) -> None:
    began = time.monotonic()
    plan.marker.unlink(missing_ok=True)
    if not _pip_runs(plan):
        _make_venv(plan, say=say)
    remove_broken(plan.path)
    _install_locked(plan, say=say)
    if plan.files.plugins:
        _install_plugins(plan, say=say)
    result = _check(plan)
    if not result.good:
        raise InstallFailedError(
            step="the check of the engine environment", last_lines=result.lines[-15:]
        )
    facts = {
        "schema_version": 1,
        "lock": lock_digest(plan.files.lock),
        "python": python_tag(),
        "packages": installed_count(plan.path),
    }
    files.write_whole(plan.marker, json.dumps(facts).encode())
    say(f"engine environment: ready after {time.monotonic() - began:.0f} s")


def _make_venv(plan: EnvironmentPlan, *, say: Say) -> None:
    """An empty venv, or a copy of a finished one with the same lock, which is quicker."""
    if plan.path.exists():
        shutil.rmtree(plan.path)
    donor = _find_donor(plan)
    if donor is not None:
        say("engine environment: the same packages are here already; only the plugins are new")
        # Hard links: no space, and safe, because pip replaces files and never writes into them.
        shutil.copytree(donor, plan.path, symlinks=True, copy_function=os.link)
        (plan.path / "complete.json").unlink()
        return
    if shutil.disk_usage(plan.engines).free < plan.needs_bytes:
        raise DiskFullError(path=plan.engines)
    result = _run(plan, [sys.executable, "-m", "venv", str(plan.path)])
    if not result.good:
        shutil.rmtree(plan.path, ignore_errors=True)
        error = diagnose(result.lines, step="python -m venv", path=plan.path)
        raise (
            error
            if isinstance(error, DiskFullError)
            else VenvFailedError(last_lines=result.lines[-5:])
        )


def _find_donor(plan: EnvironmentPlan) -> Path | None:
    wanted = (lock_digest(plan.files.lock), python_tag())
    for marker in sorted(
        plan.engines.glob("*/complete.json"), key=lambda path: path.stat().st_mtime
    ):
        facts = json.loads(marker.read_bytes())
        if (facts["lock"], facts["python"]) == wanted:
            return marker.parent
    return None


def _install_locked(plan: EnvironmentPlan, *, say: Say) -> None:
    total = len(pinned_packages(plan.files.lock.read_text()))
    say(f"engine environment: {total} packages, about 2 GB; usually 3 to 8 minutes, once")
    watch = _Watch(plan.path, total=total, say=say)
    arguments = ["--require-hashes", "--requirement", str(plan.files.lock)]
    result = _pip_install(plan, arguments, on_line=watch.line, on_tick=watch.tick)
    if not result.good:
        raise diagnose(result.lines, step="pip install", path=plan.path)


def _install_plugins(plan: EnvironmentPlan, *, say: Say) -> None:
    """From copies of the sources, because a build writes beside them."""
    say("engine environment: installing Foreword's engine plugins")
    with tempfile.TemporaryDirectory(prefix="plugins-", dir=plan.engines) as scratch:
        copies = []
        for plugin in plan.files.plugins:
            copies.append(str(_copy_sources(plugin, Path(scratch) / plugin.name)))
        arguments = ["--no-build-isolation", "--force-reinstall", "--no-cache-dir", *copies]
        result = _pip_install(plan, arguments)
    if not result.good:
        raise diagnose(result.lines, step="the installation of the plugins", path=plan.path)


def _copy_sources(plugin: Path, target: Path) -> Path:
    for source in source_files(plugin):
        copy = target / source.relative_to(plugin)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    return target


class _Watch:
    """Turns pip's output, and what appears on disk, into a line every few seconds."""

    def __init__(self, environment: Path, *, total: int, say: Say) -> None:
        self._environment = environment
        self._total = total
        self._say = say
        self._progress = PipProgress()
        self._said_at = time.monotonic()

    def line(self, line: str) -> None:
        self._progress = self._progress.after(line)

    def tick(self) -> None:
        if time.monotonic() - self._said_at < SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        progress = self._progress
        if progress.unpacking:
            # pip says nothing while it unpacks: count what is there. pip itself and setuptools
            # came with the venv.
            done = min(installed_count(self._environment), self._total)
            self._say(f"engine environment: installed {done} of {self._total} packages")
        elif progress.begun:
            self._say(
                f"engine environment: fetched {progress.begun} of {self._total} packages "
                f"({progress.package})"
            )


def _pip_install(
    plan: EnvironmentPlan,
    arguments: list[str],
    *,
    on_line: Callable[[str], None] = lambda _line: None,
    on_tick: Callable[[], None] = lambda: None,
) -> ToolResult:
    pip = [str(EngineEnvironment(plan.path).python), "-m", "pip", "install", "--no-deps"]
    # Not compiled: the engine compiles what it imports at its first start, a tenth of it all.
    options = ["--no-compile", "--progress-bar=off", "--no-warn-script-location"]
    options += ["--disable-pip-version-check"]
    return _run(plan, [*pip, *options, *arguments], on_line=on_line, on_tick=on_tick)


def _pip_runs(plan: EnvironmentPlan) -> bool:
    return _run(plan, [str(EngineEnvironment(plan.path).python), "-m", "pip", "--version"]).good


def _check(plan: EnvironmentPlan) -> ToolResult:
    return _run(plan, [str(EngineEnvironment(plan.path).python), "-m", plan.check_module])


def _run(
    plan: EnvironmentPlan,
    argv: list[str],
    *,
    on_line: Callable[[str], None] = lambda _line: None,
    on_tick: Callable[[], None] = lambda: None,
) -> ToolResult:
    env = tool_environment(plan.base_env) | {"SGLANG_USE_CPU_ENGINE": "1"}
    return run_tool(argv, env=env, cwd=plan.engines, on_line=on_line, on_tick=on_tick)


def _require_linux_x86() -> None:
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in {"x86_64", "AMD64"}:
        raise UnsupportedMachineError(system=system, machine=machine)


@contextlib.contextmanager
def _disk_full_at(path: Path) -> Iterator[None]:
    """Our own writes hit a full disk as pip's do, and end in the same sentence."""
    try:
        yield
    except OSError as exc:
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFullError(path=path) from exc
        raise
