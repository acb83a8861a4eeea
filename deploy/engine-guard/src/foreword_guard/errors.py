"""What the guard refuses to do, and why.

GuardError
├── VersionMismatchError     (package, found, expected)
├── SettingError             (variable, value, expected)
├── KeyFileError             (path, problem)
├── MetricsRoomError         (folders, needed_bytes)
├── UnsealedAdapterError     (adapter)
├── CodecError               (codec, problem)
├── ForeignMemoryError       (tensors)  the tier was given copies of the KV pool
├── FrameError               (reason)   a stored object that isn't what its key says
├── SaltDestroyedError       ()         a salt whose key was destroyed on purpose
└── SaltKeyError             (path, problem)  a salt's key that can't be read or made now
"""

from dataclasses import dataclass
from pathlib import Path

EXIT_REFUSED = 3


class GuardError(Exception):
    """Root of everything that the guard raises on purpose."""


@dataclass
class VersionMismatchError(GuardError):
    """An engine package is missing or isn't the release that the guard was made for."""

    package: str
    found: str | None
    expected: str

    def __str__(self) -> str:
        found = "is not installed" if self.found is None else f"is version {self.found}"
        return (
            f"{self.package} {found}, but this guard stands in for lines of {self.package} "
            f"{self.expected}: install {self.package}=={self.expected}."
        )


@dataclass
class SettingError(GuardError):
    """An environment variable has a value that can't be used."""

    variable: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"{self.variable}={self.value!r} is not {self.expected}."


@dataclass
class KeyFileError(GuardError):
    """The key for KV at rest can't be used."""

    path: Path | None
    problem: str

    def __str__(self) -> str:
        if self.path is None:
            return (
                "FOREWORD_KV_KEY_FILE is not set: name a file with 32 random bytes, "
                "without which KV at rest can't be encrypted."
            )
        return f"The KV key {self.path} {self.problem}: it must be a file of 32 random bytes."


@dataclass
class MetricsRoomError(GuardError):
    """The engine's metrics have room nowhere."""

    folders: tuple[Path, ...]
    needed_bytes: int

    def __str__(self) -> str:
        names = " and ".join(str(folder) for folder in self.folders)
        return (
            f"The engine's metrics need {self.needed_bytes // 2**20} MiB, for which {names} have "
            "no room: free some, or name an empty folder in PROMETHEUS_MULTIPROC_DIR."
        )


@dataclass
class UnsealedAdapterError(GuardError):
    """An L2 adapter would write KV in the clear."""

    adapter: str

    def __str__(self) -> str:
        return (
            f"The L2 adapter {self.adapter!r} would store KV in the clear and serve it "
            'unchecked: add "serde": {"type": "foreword_aead"} to its JSON.'
        )


@dataclass
class CodecError(GuardError):
    """The `inner` codec of an adapter's serde can't be used."""

    codec: str
    problem: str

    def __str__(self) -> str:
        return f"The serde's inner codec {self.codec!r} can't be used: {self.problem}."


@dataclass
class ForeignMemoryError(GuardError):
    """The tensors that were registered with the tier aren't the engine's KV pool."""

    tensors: int

    def __str__(self) -> str:
        return (
            f"LMCache registered {self.tensors} tensors that aren't the engine's KV pool, so its "
            "loads would never arrive and answers would be wrong: on a CPU, leave "
            "LMCACHE_MP_TRANSFER_MODE and lmcache.mp.mp_transfer_mode unset or engine_driven."
        )


@dataclass
class FrameError(GuardError):
    """A stored object failed authentication: altered, cut short, or another key's."""

    reason: str

    def __str__(self) -> str:
        return f"Stored KV was rejected: {self.reason}."


@dataclass
class SaltDestroyedError(GuardError):
    """The salt's key was destroyed: nothing is stored under it, or read, ever again."""

    def __str__(self) -> str:
        return "The key of this salt was destroyed; what was stored under it can't be read."


@dataclass
class SaltKeyError(GuardError):
    """A salt's key can't be read or made at the moment; what it sealed is left where it is."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return (
            f"The salt key {self.path} can't be used ({self.problem}): check the folder's disk "
            "and permissions; until then nothing of this salt is stored or loaded."
        )
