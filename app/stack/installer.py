"""The steps that make the engine's environment: a venv, the locked packages, the plugins, a check.

Each step looks at what is there and does the rest, so that a second run goes on where a first
one was cut short. The marker ``complete.json`` is written last.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.stack import files
from app.stack.deploy_files import lock_digest, source_files
from app.stack.distributions import installed_names, normalise, remove_broken
from app.stack.environment_plan import EngineEnvironment, EnvironmentPlan, python_tag
from app.stack.errors import DiskFullError, InstallFailedError, VenvFailedError
from app.stack.pip_output import PipProgress, diagnose, pinned_packages
from app.stack.progress import Say
from app.stack.tool import ToolResult, run_tool, tool_environment

SAY_EVERY_S = 10.0


def install(plan: EnvironmentPlan, *, say: Say) -> None:
    """Makes or repairs the environment, under the caller's lock.

    Raises:
        EngineEnvironmentError: a step failed; what was done is kept for the next try.
    """
    began = time.monotonic()
    plan.marker.unlink(missing_ok=True)
    if not _pip_runs(plan):
        _make_venv(plan, say=say)
    remove_broken(plan.path)
    _install_locked(plan, say=say)
    if plan.files.plugins:
        _install_plugins(plan, say=say)
    result = check(plan)
    if not result.good:
        raise InstallFailedError(
            step="the check of the engine environment", last_lines=result.lines[-15:]
        )
    facts = {
        "schema_version": 1,
        "lock": lock_digest(plan.files.lock),
        "python": python_tag(),
        "packages": len(installed_names(plan.path)),
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
    """The newest: what the engine compiled in it, from any donor before, comes along."""
    wanted = (lock_digest(plan.files.lock), python_tag())
    markers = plan.engines.glob("*/complete.json")
    for marker in sorted(markers, key=lambda path: path.stat().st_mtime, reverse=True):
        facts = json.loads(marker.read_bytes())
        if (facts["lock"], facts["python"]) == wanted:
            return marker.parent
    return None


def _install_locked(plan: EnvironmentPlan, *, say: Say) -> None:
    wanted = {normalise(name) for name in pinned_packages(plan.files.lock.read_text())}
    if not wanted <= installed_names(plan.path):
        say(f"engine environment: {len(wanted)} packages, about 2 GB; usually 2 to 6 minutes, once")
    watch = _Watch(plan.path, wanted=wanted, say=say)
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

    def __init__(self, environment: Path, *, wanted: set[str], say: Say) -> None:
        self._environment = environment
        self._wanted = wanted
        self._say = say
        self._progress = PipProgress()
        self._said_at = time.monotonic()

    def line(self, line: str) -> None:
        self._progress = self._progress.after(line)

    def tick(self) -> None:
        if time.monotonic() - self._said_at < SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        progress, total = self._progress, len(self._wanted)
        if progress.unpacking:  # pip says nothing meanwhile: look at what is there
            done = len(self._wanted & installed_names(self._environment))
            self._say(f"engine environment: installed {done} of {total} packages")
        elif progress.begun:
            self._say(
                f"engine environment: fetched {progress.begun} of {total} packages "
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
    return _run(plan, [str(EngineEnvironment(plan.path).python), "-c", "import pip"]).good


def check(plan: EnvironmentPlan) -> ToolResult:
    """The environment's own check of its versions."""
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
