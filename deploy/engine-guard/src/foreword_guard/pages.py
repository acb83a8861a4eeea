"""KV pages that a late load may still be written into are kept from everybody else.

Who writes into the engine's pages depends on the transfer mode:

- engine_driven (CPU): the engine itself copies from shared memory into its pages, inside
  `submit_retrieve` and on the scheduler's thread (worker_transfer.py:962). A reply that comes
  after the deadline finds nobody who copies; nothing can be written late.
- lmcache_driven (GPUs, and CPUs on request): the *server* writes into the pages through an IPC
  mapping (lmcache_driven_transfer.py). The pages are allocated before the load is submitted; when
  its answer is late, the connector reports a failure and SGLang frees them
  (sglang/srt/mem_cache/storage/lmcache/lmcache_unified_radix_cache.py:617), while the server may
  still write. LMCache's own comment at unified_lmcache_mp_connector.py:957 says so.

So a free of the pages of a load that hasn't settled is held back, until the server has answered
or is known to be gone. A dead process writes nothing. Held pages are missing from SGLang's
accounts, so as long as there are any the cache reports pending operations, which keeps SGLang's
leak check and `/flush_cache` away.

Mamba states are not held back: hybrid models are not served by this project.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from foreword_guard.futures import TransferFuture


class HeldPages:
    """Pages held back for one cache. Used on the scheduler's thread only."""

    def __init__(self) -> None:
        self._loading: Any = None
        self._held: list[tuple[TransferFuture, Any]] = []

    def __len__(self) -> int:
        return len(self._held)

    def loading(self, operation: Any) -> None:
        """Note the load whose pages could be freed next."""
        self._loading = operation

    @contextmanager
    def holding_back(self, allocator: Any) -> Iterator[None]:
        """Within it, `allocator.free` holds back the pages of a load that hasn't settled."""
        free = allocator.free

        def free_unless_loading(indices: Any) -> None:
            operation = self._loading
            if operation is not None and operation.device_indices is indices:
                future = operation.future
                if isinstance(future, TransferFuture) and not future.settled:
                    self._held.append((future, indices))
                    return
            free(indices)

        allocator.free = free_unless_loading
        try:
            yield
        finally:
            del allocator.free
            self._loading = None

    def release(self, allocator: Any) -> int:
        """Free the pages whose loads have settled; returns how many loads that were."""
        settled = [entry for entry in self._held if entry[0].settled]
        self._held = [entry for entry in self._held if not entry[0].settled]
        for _, indices in settled:
            allocator.free(indices)
        return len(settled)
