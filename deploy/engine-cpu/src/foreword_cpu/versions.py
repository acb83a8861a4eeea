"""The releases that the shims were written against, and the refusal of any other.

The shims name functions and lines of one SGLang release; with another they could go wrong without
a sound. SGLang swallows what a plugin raises (sglang/srt/plugins/__init__.py:139), so the launcher
asks `refusal()` before it starts SGLang, and `require()` raises `SystemExit`, which passes.
"""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from types import MappingProxyType

EXIT_REFUSED = 3

MADE_FOR: Mapping[str, str] = MappingProxyType({"sglang": "0.5.23", "torch": "2.13.0"})


def installed_version(package: str) -> str | None:
    """Version of an installed distribution, or None when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def problems(installed: Callable[[str], str | None] = installed_version) -> list[str]:
    """One sentence for each package that is not the release the shims were made for.

    A local part (`2.13.0+cpu`) is a build of the same release and is accepted.
    """
    sentences = []
    for package, expected in MADE_FOR.items():
        found = installed(package)
        if found is None or found.partition("+")[0] != expected:
            have = "is not installed" if found is None else f"is {found}"
            sentences.append(
                f"foreword-engine-cpu was made for {package} {expected}, but {package} {have}: "
                "install the engine environment from its lock file again."
            )
    return sentences


def enabled() -> bool:
    """Whether this process belongs to an engine that was started for a plain CPU."""
    return os.environ.get("SGLANG_USE_CPU_ENGINE") == "1"


def refusal() -> str | None:
    """Why an engine must not start, or None: for the launcher (`foreword.engine_checks`)."""
    return " ".join(problems()) or None if enabled() else None


def require(installed: Callable[[str], str | None] = installed_version) -> None:
    """Return when every release fits; else print why on stderr and exit.

    Raises:
        SystemExit: status 3.
    """
    found = problems(installed)
    if found:
        sys.stderr.write("\n".join(found) + "\n")
        sys.stderr.flush()
        raise SystemExit(EXIT_REFUSED)
