"""Starts services in order, keeps them running, and stops them in the opposite order."""

import threading
from collections.abc import Callable, Sequence

from app.stack.errors import StackError
from app.stack.keeper import Keeper, Service, State
from app.stack.progress import Say


class Supervisor:
    """The keepers of one stack. ``start`` and ``stop`` belong to one thread."""

    def __init__(
        self, services: Sequence[Service], *, say: Say, on_change: Callable[[], None]
    ) -> None:
        self._say = say
        self._changed = threading.Event()
        self._tell = on_change
        self.keepers = {
            service.name: Keeper(service, say=say, on_change=self._on_change)
            for service in services
        }

    def start(self) -> None:
        """Starts all, each when the one before is ready, or beside it where it may.

        Raises:
            ProcessStartError: one did not; the others are stopped again.
        """
        launched: list[Keeper] = []
        try:
            for name, keeper in self.keepers.items():
                if not keeper.service.beside:
                    _await_ready(launched)
                self._say(f"{name}: starting (usually takes {keeper.service.usually})")
                keeper.launch()
                launched.append(keeper)
            _await_ready(launched)
        except BaseException:  # Ctrl-C included
            self.stop()
            raise

    def stop(self) -> None:
        """Stops all in order; a Ctrl-C meanwhile kills what still runs."""
        try:
            for name, keeper in reversed(self.keepers.items()):
                if keeper.state not in {State.IDLE, State.STOPPED}:
                    self._say(f"{name}: stopping")
                    keeper.stop()
        except KeyboardInterrupt:
            self._say("killing what still runs")
            self.kill()

    def kill(self) -> None:
        """Kills all at once and waits for that."""
        for keeper in self.keepers.values():
            keeper.kill()
        for keeper in self.keepers.values():
            keeper.stop()

    def wait_for_failure(self, timeout_s: float | None = None) -> StackError | None:
        """Waits until an essential service has been given up, and all others of its kind too.

        Returns:
            The first one's failure; None if the time is over first.
        """
        while True:
            failure = self._failure()
            if failure is not None:
                return failure
            if not self._changed.wait(timeout_s):
                return None
            self._changed.clear()

    def _failure(self) -> StackError | None:
        for keeper in self.keepers.values():
            if keeper.failure is not None and keeper.service.essential:
                kind = keeper.service.kind
                others = [k for k in self.keepers.values() if kind and k.service.kind == kind]
                if all(other.failure is not None for other in others):
                    return keeper.failure
        return None

    def _on_change(self) -> None:
        self._tell()
        self._changed.set()


def _await_ready(launched: list[Keeper]) -> None:
    """Until all of them are; the list is empty afterwards."""
    while launched:
        launched.pop(0).await_ready()
