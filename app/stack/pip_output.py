"""What pip's output says: how far it is, and what went wrong. Pure.

Source: pip 23 to 26, the plain output without a progress bar.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.stack.errors import (
    DiskFullError,
    EngineEnvironmentError,
    HashMismatchError,
    InstallFailedError,
    PackageIndexUnreachableError,
    PackageMissingError,
)

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)
_BEGAN = re.compile(r"^(?:Collecting|Requirement already satisfied:|Processing) (\S+)")
_NO_VERSION = re.compile(r"Could not find a version that satisfies the requirement (\S+)")
_WRONG_HASH = "THESE PACKAGES DO NOT MATCH THE HASHES"
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "[Errno 28]", "[Errno 122]")
_NO_NETWORK = (
    "ConnectTimeoutError",
    "Connection refused",
    "Connection reset by peer",
    "Failed to establish a new connection",
    "Name or service not known",
    "Network is unreachable",
    "NewConnectionError",
    "ProxyError",
    "ReadTimeoutError",
    "Read timed out",
    "RemoteDisconnected",
    "Temporary failure in name resolution",
)


@dataclass(frozen=True, slots=True)
class PipProgress:
    """How far pip is: packages begun (of which file fetched), and whether it unpacks by now."""

    begun: int = 0
    package: str = ""
    unpacking: bool = False

    def after(self, line: str) -> "PipProgress":
        """The progress after one more line."""
        stripped = line.strip()
        if stripped.startswith("Installing collected packages:"):
            return replace(self, unpacking=True)
        began = _BEGAN.match(stripped)
        if began is None:
            return self
        package = re.split(r"[=<>!~;\[-]", began.group(1).rpartition("/")[2])[0]
        return replace(self, begun=self.begun + 1, package=package)


def pinned_packages(lock: str) -> list[str]:
    """The names in a lock file, in order."""
    return _PINNED.findall(lock)


def diagnose(lines: Sequence[str], *, step: str, path: Path) -> EngineEnvironmentError:
    """The error behind a failed pip, in the order of what hides what.

    Args:
        path: what pip wrote to.
    """
    text = "\n".join(lines)
    if any(sign in text for sign in _NO_SPACE):
        return DiskFullError(path=path)
    if _WRONG_HASH in text:
        return HashMismatchError(package=_mismatched(lines))
    if any(sign in text for sign in _NO_NETWORK):
        return PackageIndexUnreachableError()
    missing = _NO_VERSION.search(text)
    if missing is not None:
        return PackageMissingError(package=missing.group(1))
    return InstallFailedError(step=step, last_lines=tuple(lines[-15:]))


def _mismatched(lines: Sequence[str]) -> str:
    """The package named after pip's complaint: "    six==1.16 from https://…:"."""
    after = False
    for line in lines:
        if after and " from " in line:
            return line.split(" from ")[0].strip()
        after = after or _WRONG_HASH in line
    return "a package"
