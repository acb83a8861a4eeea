"""Work on a disk that may hang, for which nobody waits long. No LMCache in here."""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class _Task:
    due_s: float
    done: Future[Any] = field(default_factory=Future)


class DiskWork:
    """Does each piece of work in a thread of its own. Thread-safe.

    Once a piece of work is late nothing more is begun until it is done: so a disk that hangs holds
    up as many threads as were begun within the wait, and everybody else is told at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, _Task] = {}

    def result(self, what: Hashable, work: Callable[[], Result], *, wait_s: float) -> Result:
        """What the work returns or raises; if it is under way already, what that does.

        Args:
            what: equal for work that is the same.
            wait_s: how long the work may take; it isn't ended then, only not waited for.

        Raises:
            TimeoutError: the disk hasn't answered in time, or didn't answer others.
        """
        with self._lock:
            now_s = self._clock()
            task = self._under_way.get(what)
            if task is None:
                if any(other.due_s <= now_s for other in self._under_way.values()):
                    raise TimeoutError
                task = self._under_way[what] = _Task(now_s + wait_s)
                threading.Thread(
                    target=self._run,
                    args=(what, work, task.done),
                    name="foreword-disk",
                    # The process may end though a disk hangs.
                    daemon=True,
                ).start()
        found: Result = task.done.result(max(0.0, task.due_s - now_s))
        return found

    def _run(self, what: Hashable, work: Callable[[], object], done: Future[Any]) -> None:
        try:
            found = work()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self._end(what)
            done.set_exception(error)
        else:
            self._end(what)
            done.set_result(found)

    def _end(self, what: Hashable) -> None:
        with self._lock:
            del self._under_way[what]
