"""Events and streams for `torch.cpu`, which HiCache creates on whatever device it runs.

Stands in for `torch.cpu.Event` and `torch.cpu.Stream` (torch/cpu/__init__.py): torch's event takes
no `enable_timing`, and its stream cannot be synchronized. Work on the CPU device is done when the
call that asked for it returns, so an event is always complete and waiting does nothing.

Source: sglang/srt/mem_cache/l2_transfer.py:21-58, 113-123 (sglang 0.5.23).
"""

import time
from typing import Any

import torch


class Event:
    """`torch.cuda.Event`'s interface; times are read from the wall clock."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self._at_s = 0.0

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        self._at_s = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Always True."""
        return True

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds from this event to `end_event`, as CUDA counts them."""
        return (end_event._at_s - self._at_s) * 1e3


class Stream:
    """`torch.cuda.Stream`'s interface, in program order."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_event(self, event: Event) -> None:
        """Return at once."""

    def wait_stream(self, stream: "Stream") -> None:
        """Return at once."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event that has been recorded now."""
        recorded = event or Event()
        recorded.record()
        return recorded

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Always True."""
        return True


def install() -> None:
    """Give `torch.cpu` the two classes."""
    for name, replacement in (("Event", Event), ("Stream", Stream)):
        setattr(torch.cpu, name, replacement)
