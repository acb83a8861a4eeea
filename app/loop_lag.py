"""How long the event loop was held up: while it is, nobody gets an answer."""

import anyio

_EVERY_S = 0.25


class LoopLag:
    """Measures how much later than asked for it is woken."""

    def __init__(self) -> None:
        self._worst_s = 0.0

    async def watch(self) -> None:
        """Measure, for ever."""
        while True:
            due = anyio.current_time() + _EVERY_S
            await anyio.sleep_until(due)
            self._worst_s = max(self._worst_s, anyio.current_time() - due)

    def take(self) -> float:
        """The worst since the last time that it was asked for, in seconds."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s
