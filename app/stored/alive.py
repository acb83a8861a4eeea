"""The turns that this gateway answers now: it says of each, over and over, that it lives."""

import anyio

from app.stored.turn_store import ALIVE_S, TurnStore


class TurnsAlive:
    """One event loop owns it."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store
        self._turns: dict[str, str] = {}

    def begun(self, conversation_id: str, response_id: str) -> None:
        """A turn has begun."""
        self._turns[response_id] = conversation_id

    def ended(self, response_id: str) -> None:
        """It is over; to say so twice does no harm."""
        self._turns.pop(response_id, None)

    async def watch(self) -> None:
        """For ever."""
        while True:
            await anyio.sleep(ALIVE_S)
            if turns := [
                (conversation, response) for response, conversation in self._turns.items()
            ]:
                await anyio.to_thread.run_sync(self._store.keep_alive, turns)
