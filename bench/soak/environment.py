"""On what a figure was measured."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("anyio", "fastapi", "pyzmq", "sqlalchemy", "tokenizers", "uvicorn", "uvloop")


def environment() -> dict[str, object]:
    """Commit (with `-dirty`), Python, packages, processor and load."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    folder = Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None
