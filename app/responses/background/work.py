"""Responses of the background for those that make them: taken up, told of, and each with one end.

One gateway at a time makes a response, and says every few seconds that it lives; what it leaves
another takes up. Each beginning has a number of its own (`attempt`), and whatever is written says
for which: of a beginning that isn't the last one nothing is taken any more.
"""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from app.errors import NotStoredError
from app.leases import Lease
from app.responses.background.records import UNDER_WAY, Claimed, JSONObject, RunStatus, Waiting
from app.responses.background.rows import Told, drop, insert_events, set_status
from app.stored.chains import IS_SEEN
from app.stored.records import StoredResponse
from app.tables import background_events, background_responses, stored_responses

OWNED_S = 60.0
_LEASE = Lease(background_responses, seconds=OWNED_S)
_LOOKED_AT = 500

_B, _E, _R = background_responses.c, background_events.c, stored_responses.c
_HAS_ROW = _B.id.in_(sa.select(_R.id))


class BackgroundWork:
    """Those of all tenants. All calls block."""

    def __init__(self, database: sa.Engine, *, told: Told) -> None:
        self._database = database
        self._told = told

    def waiting(self, owner: str, now: float, *, without: Iterable[str]) -> list[Waiting]:
        """All that this gateway is to begin, the oldest first; not those that it makes already."""
        which = (_B.status.in_(UNDER_WAY), _B.id.not_in(list(without)))
        query = (
            sa.select(_B.id, _B.tenant, _B.conversation_id, _B.attempt, _B.not_before)
            .where(*which, _LEASE.open_to(owner, now))
            .order_by(_B.serial)
            .limit(_LOOKED_AT)
        )
        with self._database.connect() as connection:
            return [Waiting(**row._mapping) for row in connection.execute(query)]

    def claim(self, waiting: Waiting, owner: str, now: float) -> Claimed | None:
        """It is made here from now on; None: somebody else was faster."""
        with self._database.begin() as connection:
            same = (_B.id == waiting.id, _B.attempt == waiting.attempt)
            taken = connection.execute(
                _LEASE.take(owner, now, *same, _B.status.in_(UNDER_WAY), _HAS_ROW).values(
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
            set_status(connection, row.id, RunStatus.IN_PROGRESS)
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
        which = (_B.id.in_(list(attempts)), _B.status == RunStatus.IN_PROGRESS)
        held = sa.select(_B.id, _B.attempt).where(*which, _LEASE.held_by(owner), _HAS_ROW)
        with self._database.begin() as connection:
            connection.execute(_LEASE.renew(owner, now, *which, _LEASE.due(now)))
            rows = connection.execute(held).all()
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
                    insert_events(connection, response_id, new)

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
        self._told.response_ended(
            connection, stored.id, tenant=stored.tenant, status=status.value, at=now
        )

    def end(self, claimed: Claimed, response: JSONObject, now: float) -> bool:
        """How it ends that no turn was kept of; whether it hadn't ended before."""
        status = RunStatus(response["status"])
        with self._database.begin() as connection:
            ended = _ending(claimed.id, status, now, attempt=claimed.attempt)
            if not connection.execute(ended).rowcount:
                return False
            kept = sa.update(stored_responses).where(_R.id == claimed.id)
            if connection.execute(kept.values(response=response)).rowcount:
                self._told.response_ended(
                    connection, claimed.id, tenant=claimed.tenant, status=status.value, at=now
                )
        return True

    def give_back(self, claimed: Claimed, *, not_before: float) -> None:
        """It is made later, here or elsewhere; nothing of it is to be kept."""
        with self._database.begin() as connection:
            back = _LEASE.let_go(
                _B.id == claimed.id,
                _B.attempt == claimed.attempt,
                _B.status == RunStatus.IN_PROGRESS,
            ).values(status=RunStatus.QUEUED, not_before=not_before)
            if connection.execute(back).rowcount:
                set_status(connection, claimed.id, RunStatus.QUEUED)

    def drop_orphans(self, *, events_before: float) -> None:
        """Let go of those whose response is gone, and of the events of those that ended before."""
        rows = sa.select(_R.id).where(IS_SEEN)
        old = sa.select(_B.id).where(_B.ended_at < events_before)
        with self._database.begin() as connection:
            drop(connection, _B.id.not_in(rows), _E.response_id.not_in(rows))
            connection.execute(sa.delete(background_events).where(_E.response_id.in_(old)))


def _ending(response_id: str, status: RunStatus, now: float, *, attempt: int) -> sa.Update:
    return (
        sa.update(background_responses)
        .where(_B.id == response_id, _B.attempt == attempt, _B.status == RunStatus.IN_PROGRESS)
        .values(status=status, ended_at=now, body=b"", owner=None)
    )
