"""Requests of which a replica has said nothing yet, so that none waits for one that hangs."""

import asyncio
from typing import Any


class Waiting:
    """Belongs to one replica and one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any] | None] = {}
        self._given_up: set[str] = set()

    def begun(self, request_id: str, task: asyncio.Task[Any] | None) -> None:
        """A task waits for a request's first byte."""
        self._tasks[request_id] = task

    def ended(self, request_id: str) -> None:
        """It waits no more."""
        self._tasks.pop(request_id, None)
        self._given_up.discard(request_id)

    def give_up(self) -> int:
        """Wake all that wait, by a cancellation that `was_given_up` takes back; how many."""
        woken = 0
        for request_id, task in self._tasks.items():
            if task is not None and request_id not in self._given_up:
                self._given_up.add(request_id)
                task.cancel()
                woken += 1
        return woken

    def was_given_up(self, request_id: str) -> bool:
        """Whether the cancellation that was caught is ours, and the task may go on.

        One that was cancelled by somebody else too may not: its client is gone.
        """
        task = self._tasks.get(request_id)
        return request_id in self._given_up and task is not None and task.uncancel() == 0
