"""Responses of the background in the database: queued, begun, and each with one end.

All calls block. One gateway at a time makes a response, and says every few seconds that it lives;
what it leaves another takes up. Each beginning has a number of its own (`attempt`), and whatever is
written says for which: of a beginning that isn't the last one nothing is taken any more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import orjson
import sqlalchemy as sa

from app.agents.rows import forget_ended
from app.errors import (
    NotStoredError,
    QueueFullError,
    ResponseNotFoundError,
    ResponseNotInBackgroundError,
)
from app.responses.background.records import (
    UNDER_WAY,
    Claimed,
    JSONObject,
    RunStatus,
    Seen,
    Waiting,
    begun_events,
)
from app.stored.records import StoredResponse, may_be_id
from app.stored.responses import insert_response
from app.tables import background_events, background_responses, stored_responses

OWNED_S = 60.0
_FULL_RETRY_S = 10.0
_LOOKED_AT = 500

_B, _E, _R = background_responses.c, background_events.c, stored_responses.c
_HAS_ROW = _B.id.in_(sa.select(_R.id))


class Told(Protocol):
    """Whoever tells of ends; what it writes is committed with them."""

    def response_ended(
        self, connection: sa.Connection, response_id: str, *, tenant: str, status: str, at: float
    ) -> None:
        """A response of the background has come to its end."""


class BackgroundStore:
    """Those of all tenants.

    Attributes:
        changed: told, on the event loop, when something is to be done at once; replaced by whoever
            does it.
    """

    def __init__(self, database: sa.Engine, *, told: Told) -> None:
        self._database = database
        self._told = told
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
            "owned_until": 0.0,
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
            _insert_events(connection, stored.id, events)

    def waiting(self, owner: str, now: float, *, without: Iterable[str]) -> list[Waiting]:
        """All that this gateway is to begin, the oldest first; not those that it makes already."""
        mine = sa.or_(_B.owner == owner, _B.owned_until < now)
        which = (_B.status.in_(UNDER_WAY), _B.id.not_in(list(without)))
        query = (
            sa.select(_B.id, _B.tenant, _B.conversation_id, _B.attempt, _B.not_before)
            .where(*which, mine)
            .order_by(_B.serial)
            .limit(_LOOKED_AT)
        )
        with self._database.connect() as connection:
            return [Waiting(**row._mapping) for row in connection.execute(query)]

    def claim(self, waiting: Waiting, owner: str, now: float) -> Claimed | None:
        """It is made here from now on; None: somebody else was faster."""
        with self._database.begin() as connection:
            taken = connection.execute(
                sa.update(background_responses)
                .where(
                    _B.id == waiting.id,
                    _B.attempt == waiting.attempt,
                    _B.status.in_(UNDER_WAY),
                    sa.or_(_B.owner == owner, _B.owned_until < now),
                    _HAS_ROW,
                )
                .values(
                    owner=owner,
                    owned_until=now + OWNED_S,
                    attempt=_B.attempt + 1,
                    lost=_B.lost + sa.case((_B.status == RunStatus.IN_PROGRESS, 1), else_=0),
                    status=RunStatus.IN_PROGRESS,
                )
            )
            if not taken.rowcount:
                return None
            row = connection.execute(
                sa.select(background_responses).where(_B.id == waiting.id)
            ).one()
            if row.attempt > 1:
                # Whoever follows is told from the beginning, under numbers that nobody had.
                connection.execute(sa.delete(background_events).where(_E.response_id == row.id))
            _set_status(connection, row.id, RunStatus.IN_PROGRESS)
        return Claimed(
            id=row.id,
            tenant=row.tenant,
            created_at=row.created_at,
            body=row.body,
            attempt=row.attempt,
            lost=row.lost,
            next_event=row.next_event,
            streams=row.streams,
            conversation_id=row.conversation_id,
        )

    def renew(self, attempts: Mapping[str, int], owner: str, now: float) -> set[str]:
        """Say of these that they are still made here; which of them still are to be."""
        if not attempts:
            return set()
        which = (_B.id.in_(list(attempts)), _B.status == RunStatus.IN_PROGRESS, _B.owner == owner)
        with self._database.begin() as connection:
            late = sa.update(background_responses).where(*which, _B.owned_until < now + OWNED_S / 2)
            connection.execute(late.values(owned_until=now + OWNED_S))
            rows = connection.execute(sa.select(_B.id, _B.attempt).where(*which, _HAS_ROW)).all()
        return {row.id for row in rows if attempts[row.id] == row.attempt}

    def add_events(self, events: Mapping[tuple[str, int], Sequence[JSONObject]]) -> None:
        """More events, by response and attempt; those that are there already do no harm.

        Of a response that is cancelled, gone, or taken over by another gateway none are kept.
        """
        with self._database.begin() as connection:
            for (response_id, attempt), more in events.items():
                which = (_B.id == response_id, _B.attempt == attempt)
                goes_on = (*which, _B.status != RunStatus.CANCELLED)
                # A write first, so that nobody changes the number meanwhile.
                same = sa.update(background_responses).where(*goes_on)
                if not connection.execute(same.values(next_event=_B.next_event)).rowcount:
                    continue
                first = connection.scalar(sa.select(_B.next_event).where(*which)) or 0
                new = [event for event in more if event["sequence_number"] >= first]
                if new:
                    last = new[-1]["sequence_number"]
                    connection.execute(same.values(next_event=last + 1))
                    _insert_events(connection, response_id, new)

    def finish(
        self, connection: sa.Connection, stored: StoredResponse, *, attempt: int, now: float
    ) -> None:
        """How it ends, in a transaction of the caller's.

        Raises:
            NotStoredError: it was cancelled or deleted meanwhile, or taken over.
        """
        status = RunStatus(stored.response["status"])
        ended = _ending(stored.id, status, now, attempt=attempt)
        kept = (
            sa.update(stored_responses)
            .where(_R.id == stored.id)
            .values(
                response=stored.response,
                input=stored.input,
                output_ids=stored.output_ids,
                tokenizer=stored.tokenizer,
            )
        )
        if not connection.execute(ended).rowcount or not connection.execute(kept).rowcount:
            raise NotStoredError(f"response {stored.id} was cancelled, deleted or taken over")
        self._tell(connection, stored.id, stored.tenant, status, now)

    def end(self, claimed: Claimed, response: JSONObject, now: float) -> bool:
        """How it ends that no turn was kept of; whether it hadn't ended before."""
        status = RunStatus(response["status"])
        with self._database.begin() as connection:
            ended = _ending(claimed.id, status, now, attempt=claimed.attempt)
            if not connection.execute(ended).rowcount:
                return False
            kept = sa.update(stored_responses).where(_R.id == claimed.id)
            if connection.execute(kept.values(response=response)).rowcount:
                self._tell(connection, claimed.id, claimed.tenant, status, now)
        return True

    def give_back(self, claimed: Claimed, *, not_before: float) -> None:
        """It is made later, here or elsewhere; nothing of it is to be kept."""
        with self._database.begin() as connection:
            back = sa.update(background_responses).where(
                _B.id == claimed.id,
                _B.attempt == claimed.attempt,
                _B.status == RunStatus.IN_PROGRESS,
            )
            values = {
                "status": RunStatus.QUEUED,
                "owner": None,
                "owned_until": 0.0,
                "not_before": not_before,
            }
            if connection.execute(back.values(**values)).rowcount:
                _set_status(connection, claimed.id, RunStatus.QUEUED)

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
                _set_status(connection, response_id, RunStatus.CANCELLED)
                self._tell(connection, response_id, tenant, RunStatus.CANCELLED, now)
            return _response(connection, response_id)

    def delete(self, response_id: str, *, tenant: str) -> None:
        """A response, of the background or not; one that is being made is made no longer.

        Raises:
            ResponseNotFoundError: the tenant has none of this id.
        """
        _check_id(response_id)
        with self._database.begin() as connection:
            gone = sa.delete(stored_responses).where(_R.id == response_id, _R.tenant == tenant)
            if not connection.execute(gone).rowcount:
                raise ResponseNotFoundError(response_id)
            _drop(connection, _B.id == response_id, _E.response_id == response_id)
            forget_ended(connection, response_id)

    def drop_orphans(self, *, events_before: float) -> None:
        """Let go of those whose response is gone, and of the events of those that ended before."""
        rows = sa.select(_R.id)
        old = sa.select(_B.id).where(_B.ended_at < events_before)
        with self._database.begin() as connection:
            _drop(connection, _B.id.not_in(rows), _E.response_id.not_in(rows))
            connection.execute(sa.delete(background_events).where(_E.response_id.in_(old)))

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
        kept = sa.select(_R.id).where(_R.id == response_id, _R.tenant == tenant)
        if connection.execute(kept).one_or_none() is None:
            raise ResponseNotFoundError(response_id)
        raise ResponseNotInBackgroundError(response_id, wanted)

    def _tell(
        self, connection: sa.Connection, response_id: str, tenant: str, status: RunStatus, at: float
    ) -> None:
        self._told.response_ended(
            connection, response_id, tenant=tenant, status=status.value, at=at
        )


def _nobody() -> None:
    """It is seen at the next look."""


def _check_id(response_id: str) -> None:
    """Raises ResponseNotFoundError: none can be called so."""
    if not may_be_id(response_id):
        raise ResponseNotFoundError(response_id)


def _ending(response_id: str, status: RunStatus, now: float, *, attempt: int) -> sa.Update:
    return (
        sa.update(background_responses)
        .where(_B.id == response_id, _B.attempt == attempt, _B.status == RunStatus.IN_PROGRESS)
        .values(status=status, ended_at=now, body=b"", owner=None)
    )


def _response(connection: sa.Connection, response_id: str) -> JSONObject:
    """Raises ResponseNotFoundError: it was deleted."""
    row = connection.execute(sa.select(_R.response).where(_R.id == response_id)).one_or_none()
    if row is None:
        raise ResponseNotFoundError(response_id)
    return {**row.response}


def _set_status(connection: sa.Connection, response_id: str, status: RunStatus) -> None:
    """The response says so, too."""
    row = connection.execute(sa.select(_R.response).where(_R.id == response_id)).one_or_none()
    if row is not None:
        changed = row.response | {"status": status.value}
        connection.execute(
            sa.update(stored_responses).where(_R.id == response_id).values(response=changed)
        )


def _insert_events(
    connection: sa.Connection, response_id: str, events: Sequence[JSONObject]
) -> None:
    if events:
        connection.execute(
            sa.insert(background_events).values(
                response_id=response_id,
                first=events[0]["sequence_number"],
                last=events[-1]["sequence_number"],
                data=orjson.dumps(events),
            )
        )


def _drop(
    connection: sa.Connection, runs: sa.ColumnElement[bool], events: sa.ColumnElement[bool]
) -> None:
    connection.execute(sa.delete(background_events).where(events))
    connection.execute(sa.delete(background_responses).where(runs))
