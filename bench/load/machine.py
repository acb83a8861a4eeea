"""On what a run was made: commit, versions, processor and load."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("httptools", "orjson", "uvloop")


def commit() -> str | None:
    """Of this project, with `-dirty` where files were changed; None: not a clone."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Of the load generator; the engine's may be another."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
    }


def load_average() -> tuple[float, float, float]:
    """Of one, five and fifteen minutes."""
    one, five, fifteen = os.getloadavg()
    return round(one, 2), round(five, 2), round(fifteen, 2)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, None)
