"""Responses in the database: to be fetched, deleted, and gone on from."""

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from app.agents.rows import delete_runs, said_in_run
from app.errors import InvalidRequestError, ResponseNotFoundError
from app.stored.items import output_items
from app.stored.records import SaidItem, StoredResponse, may_be_id
from app.tables import agent_runs, stored_responses

WriteResponse = Callable[[sa.Connection, StoredResponse], None]

# How a response of the background stands, or ended, that nobody can go on from.
_UNANSWERED = ("queued", "in_progress", "failed", "cancelled")

_R = stored_responses.c
_COLUMNS = tuple(each.name for each in fields(StoredResponse))


class ResponseStore:
    """To be called in worker threads. `now` gives seconds since the epoch."""

    def __init__(self, database: sa.Engine, *, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    def keep(self, response: StoredResponse, *, write: WriteResponse | None = None) -> None:
        """Durable when it returns."""
        with self._database.begin() as connection:
            (write or insert_response)(connection, response)

    def get(self, response_id: str, *, tenant: str) -> StoredResponse:
        """Raises ResponseNotFoundError."""
        with self._database.connect() as connection:
            return _response(_row(connection, response_id, tenant))

    def delete(self, response_id: str, *, tenant: str) -> None:
        """Raises ResponseNotFoundError."""
        with self._database.begin() as connection:
            _row(connection, response_id, tenant)
            connection.execute(sa.delete(stored_responses).where(_R.id == response_id))
            delete_runs(connection, agent_runs.c.id == response_id)

    def said(self, response_id: str, *, tenant: str) -> list[SaidItem]:
        """All that was said up to a response, with it.

        Raises:
            ResponseNotFoundError: it, or one that it goes on from, isn't there.
            InvalidRequestError: it belongs to a conversation.
        """
        turns: list[StoredResponse] = []
        with self._database.connect() as connection:
            wanted: str | None = response_id
            while wanted is not None:
                turn = _response(_row(connection, wanted, tenant))
                if turn.conversation_id is not None:
                    raise InvalidRequestError(
                        f"{wanted} is a turn of conversation {turn.conversation_id}: name that in "
                        "`conversation`, or fork it at an item of this response",
                        param="previous_response_id",
                    )
                if (status := turn.response.get("status")) in _UNANSWERED:
                    raise InvalidRequestError(
                        f"{wanted} is {status}: go on from a response that has been answered",
                        param="previous_response_id",
                    )
                turns.append(turn)
                wanted = turn.previous_id
            in_runs = {turn.id: said_in_run(connection, turn.id) for turn in turns}
        items: list[SaidItem] = []
        for turn in reversed(turns):
            items += [SaidItem(item=item) for item in turn.input]
            items += in_runs[turn.id] or output_items(
                turn.response["output"], output_ids=turn.output_ids, tokenizer=turn.tokenizer
            )
        return items

    def expire(self, *, before: float) -> int:
        """Delete older responses; how many that were."""
        with self._database.begin() as connection:
            old = sa.select(_R.id).where(_R.created_at < before)
            delete_runs(connection, agent_runs.c.id.in_(old))
            done = connection.execute(sa.delete(stored_responses).where(_R.created_at < before))
        return done.rowcount


def insert_response(connection: sa.Connection, response: StoredResponse) -> None:
    """Write a response, in a transaction of the caller's."""
    values = {name: getattr(response, name) for name in _COLUMNS}
    connection.execute(sa.insert(stored_responses).values(**values))


def delete_responses_of(connection: sa.Connection, conversation_id: str) -> None:
    """Delete those of a conversation, in a transaction of the caller's."""
    connection.execute(sa.delete(stored_responses).where(_R.conversation_id == conversation_id))
    delete_runs(connection, agent_runs.c.conversation_id == conversation_id)


def _row(connection: sa.Connection, response_id: str, tenant: str) -> sa.Row[Any]:
    found = sa.select(stored_responses).where(_R.id == response_id, _R.tenant == tenant)
    row = connection.execute(found).one_or_none() if may_be_id(response_id) else None
    if row is None:
        raise ResponseNotFoundError(response_id)
    return row


def _response(row: sa.Row[Any]) -> StoredResponse:
    return StoredResponse(**{name: getattr(row, name) for name in _COLUMNS})
