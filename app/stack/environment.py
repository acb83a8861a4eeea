"""The engine's own environment: SGLang, LMCache and the two plugins in a venv under FOREWORD_CACHE.

Made once per digest of the lock file and the plugins' sources, in a folder of that name. The
marker ``complete.json`` is written last; without it, or when a check fails, the next caller
repairs what is there: pip puts in what is missing and fetches nothing twice. Callers at the same
time wait for each other.
"""

import contextlib
import errno
import platform
from collections.abc import Iterator
from pathlib import Path

from app.stack import files
from app.stack.distributions import broken_distributions
from app.stack.environment_plan import EngineEnvironment, EnvironmentPlan
from app.stack.errors import DiskFullError, UnsupportedMachineError
from app.stack.installer import check, install
from app.stack.progress import Say


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
            install(plan, say=say)
    return EngineEnvironment(plan.path)


def find_problem(plan: EnvironmentPlan) -> str | None:
    """Why the environment cannot be used as it is, or None if it can."""
    if not plan.path.exists():
        return "it has not been made yet"
    if not plan.marker.exists():
        return "it is half made"
    for folder in broken_distributions(plan.path):
        return f"{folder.name.removesuffix('.dist-info')} is damaged"
    result = check(plan)
    if not result.good:
        return result.lines[-1] if result.lines else "its check failed"
    return None


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
