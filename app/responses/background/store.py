"""Responses of the background in the database, as clients see them: queued, followed, cancelled.

All calls block. Who makes them works by `work`.
"""

from collections.abc import Callable

import orjson
import sqlalchemy as sa

from app.errors import QueueFullError, ResponseNotFoundError, ResponseNotInBackgroundError
from app.leases import NOBODYS
from app.responses.background.records import (
    UNDER_WAY,
    JSONObject,
    RunStatus,
    Seen,
    begun_events,
)
from app.responses.background.rows import Told, drop, insert_events, set_status
from app.responses.background.work import BackgroundWork
from app.stored.chains import IS_SEEN
from app.stored.records import StoredResponse, may_be_id
from app.stored.responses import forget_response, insert_response
from app.tables import background_events, background_responses, stored_responses

_FULL_RETRY_S = 10.0

_B, _E, _R = background_responses.c, background_events.c, stored_responses.c


class BackgroundStore:
    """Those of all tenants.

    Attributes:
        work: the same for those that make them.
        changed: told, on the event loop, when something is to be done at once; replaced by whoever
            does it.
    """

    def __init__(self, database: sa.Engine, *, told: Told) -> None:
        self._database = database
        self._told = told
        self.work = BackgroundWork(database, told=told)
        self.changed: Callable[[], None] = _nobody

    def queue(self, stored: StoredResponse, body: bytes, *, streams: bool, most: int) -> None:
        """A new one; it is kept when this returns.

        Raises:
            QueueFullError: so many of the tenant's are under way.
        """
        events = begun_events(stored.response) if streams else []
        row = {
            "id": stored.id,
            "tenant": stored.tenant,
            "conversation_id": stored.conversation_id,
            "status": RunStatus.QUEUED,
            "body": body,
            "streams": streams,
            "created_at": stored.created_at,
            "not_before": 0.0,
            "attempt": 0,
            "lost": 0,
            "next_event": len(events),
            **NOBODYS,
        }
        with self._database.begin() as connection:
            connection.execute(sa.insert(background_responses).values(**row))
            count = sa.select(sa.func.count()).where(
                _B.tenant == stored.tenant, _B.status.in_(UNDER_WAY)
            )
            under_way = connection.scalar(count) or 0
            if under_way > most:
                raise QueueFullError(under_way - 1, _FULL_RETRY_S)
            insert_response(connection, stored)
            insert_events(connection, stored.id, events)

    def cancel(self, response_id: str, *, tenant: str, now: float) -> JSONObject:
        """The response as it is then: cancelled, or as it had ended before.

        Raises:
            ResponseNotFoundError: the tenant has none of this id.
            ResponseNotInBackgroundError: it isn't one of the background.
        """
        _check_id(response_id)
        with self._database.begin() as connection:
            which = (_B.id == response_id, _B.tenant == tenant, _B.status.in_(UNDER_WAY))
            values = {"status": RunStatus.CANCELLED, "ended_at": now, "body": b""}
            cancelled = sa.update(background_responses).where(*which).values(**values)
            changed = connection.execute(cancelled).rowcount
            self._status(connection, response_id, tenant, "cancelled")
            if changed:
                set_status(connection, response_id, RunStatus.CANCELLED)
                self._told.response_ended(
                    connection, response_id, tenant=tenant, status=RunStatus.CANCELLED.value, at=now
                )
            return _response(connection, response_id)

    def delete(self, response_id: str, *, tenant: str) -> None:
        """A response, of the background or not; one that is being made is made no longer.

        Raises:
            ResponseNotFoundError: the tenant has none of this id.
        """
        _check_id(response_id)
        with self._database.begin() as connection:
            forget_response(connection, response_id, tenant)
            drop(connection, _B.id == response_id, _E.response_id == response_id)

    def events(self, response_id: str, *, tenant: str, after: int) -> Seen:
        """The events after a number, and how the response is.

        Raises:
            ResponseNotFoundError: the tenant has none of this id.
            ResponseNotInBackgroundError: it isn't one of the background that is streamed.
        """
        _check_id(response_id)
        query = sa.select(_E.data).where(_E.response_id == response_id, _E.last > after)
        with self._database.connect() as connection:
            status = self._status(connection, response_id, tenant, "streamed again")
            if not status.streams:
                raise ResponseNotInBackgroundError(response_id, "streamed again")
            # The response first: events that come between are seen next time.
            response = _response(connection, response_id)
            chunks = connection.execute(query.order_by(_E.first)).scalars().all()
        found = [event for chunk in chunks for event in orjson.loads(chunk)]
        later = [event for event in found if event["sequence_number"] > after]
        return Seen(
            events=later,
            response=response,
            next_event=status.next_event,
            ended_at=status.ended_at,
        )

    def counts(self) -> dict[str, int]:
        """How many there are that haven't ended, by status."""
        query = sa.select(_B.status, sa.func.count()).where(_B.status.in_(UNDER_WAY))
        with self._database.connect() as connection:
            rows = connection.execute(query.group_by(_B.status)).all()
        found = {row[0]: row[1] for row in rows}
        return {status.value: found.get(status.value, 0) for status in UNDER_WAY}

    @staticmethod
    def _status(
        connection: sa.Connection, response_id: str, tenant: str, wanted: str
    ) -> sa.Row[bool, int, float | None]:
        """Raises ResponseNotFoundError, ResponseNotInBackgroundError."""
        query = sa.select(_B.streams, _B.next_event, _B.ended_at).where(
            _B.id == response_id, _B.tenant == tenant
        )
        row = connection.execute(query).one_or_none()
        if row is not None:
            return row
        kept = sa.select(_R.id).where(_R.id == response_id, _R.tenant == tenant, IS_SEEN)
        if connection.execute(kept).one_or_none() is None:
            raise ResponseNotFoundError(response_id)
        raise ResponseNotInBackgroundError(response_id, wanted)


def _nobody() -> None:
    """It is seen at the next look."""


def _check_id(response_id: str) -> None:
    """Raises ResponseNotFoundError: none can be called so."""
    if not may_be_id(response_id):
        raise ResponseNotFoundError(response_id)


def _response(connection: sa.Connection, response_id: str) -> JSONObject:
    """Raises ResponseNotFoundError: it was deleted."""
    seen = sa.select(_R.response).where(_R.id == response_id, IS_SEEN)
    row = connection.execute(seen).one_or_none()
    if row is None:
        raise ResponseNotFoundError(response_id)
    return {**row.response}
