"""Events of responses that are made here: kept some at a time, then told of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
import sqlalchemy as sa
import structlog

from app.responses.background.following import Followers
from app.responses.background.records import Claimed, JSONObject, numbered
from app.responses.background.work import BackgroundWork

_FLUSH_S = 0.1


@dataclass(slots=True, kw_only=True)
class Active:
    """One that is made here; `events` are those that aren't written yet."""

    claimed: Claimed
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    next_event: int
    events: list[JSONObject] = field(default_factory=list)

    def take(self, event: JSONObject) -> None:
        """One more event of it, to be kept if it is streamed."""
        if not self.claimed.streams:
            return
        without = ("response.created",) if self.claimed.attempt == 1 else ()
        events = numbered([event], self.next_event, without=without)
        self.events += events
        self.next_event += len(events)


class EventWriter:
    """Writes those of all responses of `active`, which is somebody else's."""

    def __init__(
        self, work: BackgroundWork, followers: Followers, active: Mapping[str, Active]
    ) -> None:
        self._work = work
        self._followers = followers
        self._active = active
        self._writing = anyio.Lock()
        self._log = structlog.get_logger()

    async def keep_writing(self, *, trouble_s: float) -> None:
        """For ever; after trouble with the database there is a pause."""
        while True:
            await anyio.sleep(_FLUSH_S)
            try:
                await self.write()
            except sa.exc.SQLAlchemyError as error:
                self._log.warning("background_waits", problem=type(error).__name__)
                await anyio.sleep(trouble_s)

    async def write(self) -> None:
        """Keep all events that have come, and tell of them."""
        async with self._writing:
            actives = [active for active in self._active.values() if active.events]
            if not actives:
                return
            more = {(a.claimed.id, a.claimed.attempt): list(a.events) for a in actives}
            await anyio.to_thread.run_sync(self._work.add_events, more)
            for active in actives:
                del active.events[: len(more[active.claimed.id, active.claimed.attempt])]
                self._followers.tell(active.claimed.id)
