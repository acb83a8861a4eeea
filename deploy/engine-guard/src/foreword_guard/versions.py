"""The releases that the guard was made for, and the refusal of any other.

SGLang swallows what a plugin raises (sglang/srt/plugins/__init__.py:135, `except Exception`), so
the check is made by the launchers before SGLang starts, and `SystemExit` is what the plugin raises
when somebody starts SGLang without them.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import metadata

from foreword_guard.errors import EXIT_REFUSED, GuardError, VersionMismatchError

SGLANG = ("sglang", "0.5.23")
LMCACHE = ("lmcache", "0.5.6")


def installed_version(package: str) -> str | None:
    """Version of an installed distribution, or None when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def require(
    *packages: tuple[str, str],
    installed: Callable[[str], str | None] = installed_version,
) -> None:
    """Raise unless each package is installed in exactly the expected version.

    A local part (`0.5.6+cu13`) is a build of the same release and is accepted.

    Raises:
        VersionMismatchError: the first package that differs.
    """
    for package, expected in packages:
        found = installed(package)
        if found is None or found.partition("+")[0] != expected:
            raise VersionMismatchError(package, found, expected)


def needed_by_engine(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """What an engine started with these arguments must have."""
    if "--enable-lmcache" in arguments or installed_version(LMCACHE[0]) is not None:
        return [SGLANG, LMCACHE]
    return [SGLANG]


def refuse(error: GuardError) -> SystemExit:
    """The exit to raise for a refusal: one sentence on stderr, status 3."""
    sys.stderr.write(f"foreword_guard: {error}\n")
    sys.stderr.flush()
    return SystemExit(EXIT_REFUSED)
