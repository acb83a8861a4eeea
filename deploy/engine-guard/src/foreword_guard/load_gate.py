"""Between a load that writes chunks into RAM and a deadline that ends it. Pure.

When a load is given up, LMCache frees the RAM of the chunks that didn't come. So whoever writes
them asks here before each chunk, and closing waits for the one that is being written: what is
reported as loaded is whole, and nothing is written afterwards.
"""

import threading
from collections.abc import Callable


class LoadGate:
    """The chunks of one load, by position."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._written: list[int] = []

    def write(self, position: int, write: Callable[[], bool]) -> bool:
        """Write one chunk unless the load was given up; False ends the load.

        Args:
            write: does it, and says whether the chunk may be used.
        """
        with self._lock:
            if self._closed:
                return False
            if write():
                self._written.append(position)
            return True

    def close(self) -> tuple[int, ...]:
        """End the load; returns the chunks that are written and may be used."""
        with self._lock:
            self._closed = True
            return tuple(self._written)
