"""Rows of responses of the background, for those that ask and those that make: in transactions of
the caller's."""

from collections.abc import Sequence
from typing import Protocol

import orjson
import sqlalchemy as sa

from app.responses.background.records import JSONObject, RunStatus
from app.tables import background_events, background_responses, stored_responses

_R = stored_responses.c


class Told(Protocol):
    """Whoever tells of ends; what it writes is committed with them."""

    def response_ended(
        self, connection: sa.Connection, response_id: str, *, tenant: str, status: str, at: float
    ) -> None:
        """A response of the background has come to its end."""


def set_status(connection: sa.Connection, response_id: str, status: RunStatus) -> None:
    """The response says so, too."""
    row = connection.execute(sa.select(_R.response).where(_R.id == response_id)).one_or_none()
    if row is not None:
        changed = row.response | {"status": status.value}
        connection.execute(
            sa.update(stored_responses).where(_R.id == response_id).values(response=changed)
        )


def insert_events(
    connection: sa.Connection, response_id: str, events: Sequence[JSONObject]
) -> None:
    """Some more, in one row."""
    if events:
        connection.execute(
            sa.insert(background_events).values(
                response_id=response_id,
                first=events[0]["sequence_number"],
                last=events[-1]["sequence_number"],
                data=orjson.dumps(events),
            )
        )


def drop(
    connection: sa.Connection, runs: sa.ColumnElement[bool], events: sa.ColumnElement[bool]
) -> None:
    """Let go of rows."""
    connection.execute(sa.delete(background_events).where(events))
    connection.execute(sa.delete(background_responses).where(runs))
