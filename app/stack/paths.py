"""Where the stack keeps its files: names only, nothing is read or made here.

FOREWORD_HOME holds what may not be lost, FOREWORD_CACHE what can be made again.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

# Shared memory with random names, left when the process that made it is killed. Source: CPython
# Lib/multiprocessing/synchronize.py (semaphores); sglang 0.5.23, srt/managers/load_snapshot.py and
# srt/utils/stale_shm_cleanup.py; lmcache 0.5.6, v1/platform/devices/cpu/shm.py; our engine guard's
# folders of metrics.
ORPHAN_PREFIXES = ("sem.mp-", "sglang_loads_", "sgl_shm_", "lmcache_kv_", "foreword_metrics_")

# The kernel takes 107 bytes for a socket's path; SGLang adds up to 12 to its TMPDIR.
LONGEST_SOCKET_FOLDER_BYTES = 90


@dataclass(frozen=True, slots=True)
class HomePaths:
    """The supervisor's files under FOREWORD_HOME."""

    root: Path

    @property
    def kv_key(self) -> Path:
        """32 random bytes, mode 0600: what KV at rest is encrypted with."""
        return self.root / "kv.key"

    @property
    def tier_disk(self) -> Path:
        """Tier G3, written by LMCache."""
        return self.root / "tiers" / "ssd"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def stack_file(self) -> Path:
        return self.run / "stack.json"

    @property
    def logs(self) -> Path:
        return self.run / "logs"

    @property
    def tier_settings(self) -> Path:
        """The engine's LMCache settings (YAML), written at each start."""
        return self.run / "lmcache.yaml"

    @property
    def scratch(self) -> Path:
        """TMPDIR of the engine and the tier: emptied at each start."""
        return self.run / "tmp"

    @property
    def identity(self) -> str:
        """12 hex digits that name this home in process environments and shared memory."""
        digest = hashlib.blake2b(str(self.root).encode(), digest_size=6)
        return digest.hexdigest()

    @property
    def shared_memory_name(self) -> str:
        """LMCache's ``--shm-name``."""
        return f"foreword-{self.identity}"

    @property
    def shared_memory_prefixes(self) -> tuple[str, ...]:
        """How files in /dev/shm start that belong to this home.

        Source: lmcache 0.5.6, v1/multiprocess/engine_context.py, _compute_shm_pool_info: LMCache
        puts its own prefix before the name that it is given.
        """
        return (f"lmcache_l1_pool_{self.shared_memory_name}", self.shared_memory_name)

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"


@dataclass(frozen=True, slots=True)
class CachePaths:
    """The supervisor's files under FOREWORD_CACHE."""

    root: Path

    @property
    def engines(self) -> Path:
        return self.root / "engine"

    @property
    def models(self) -> Path:
        return self.root / "models"


def resolve(path: Path) -> Path:
    """The absolute path with ``~`` and links resolved: one spelling for one folder.

    LMCache's keys carry the model's path literally, so two spellings would start cold.
    """
    return path.expanduser().resolve()
