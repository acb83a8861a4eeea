"""Responses in the database: to be fetched, deleted, and gone on from."""

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from app.agents.rows import delete_runs
from app.errors import InvalidRequestError, NotStoredError, ResponseNotFoundError
from app.stored.chains import (
    IS_SEEN,
    forget,
    let_go,
    links_of,
    said_in,
    take_hold,
    unneeded,
)
from app.stored.records import SaidItem, StoredResponse, may_be_id
from app.tables import agent_runs, stored_responses

WriteResponse = Callable[[sa.Connection, StoredResponse], None]

# How a response of the background stands, or ended, that nobody can go on from.
_UNANSWERED = ("queued", "in_progress", "failed", "cancelled")
_PARAM = "previous_response_id"
# So many are let go of in one transaction.
_MOST_AT_ONCE = 100

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
        """What other responses that go on from it need stays until they are gone.

        Raises:
            ResponseNotFoundError: the tenant has none of this id.
        """
        with self._database.begin() as connection:
            forget_response(connection, response_id, tenant)

    def said(self, response_id: str, *, tenant: str) -> list[SaidItem]:
        """All that was said up to a response, with it.

        Raises:
            ResponseNotFoundError: the tenant has none of this id.
            InvalidRequestError: it belongs to a conversation, or nobody can go on from it.
        """
        with self._database.connect() as connection:
            links = links_of(connection, response_id, tenant) if may_be_id(response_id) else []
            if not links or links[0].hidden:
                raise ResponseNotFoundError(response_id)
            _check_gone_on_from(links)
            return [item for link in reversed(links) for item in said_in(connection, link)]

    def expire(self, *, before: float) -> int:
        """Forget older responses; how many that were."""
        number = 0
        while due := self._forget_some(before):
            number += due
        while self._let_go_of_some():
            pass
        return number

    def _forget_some(self, before: float) -> int:
        # Those that others go on from last, when the others may be gone.
        old = sa.select(_R.id, _R.tenant).where(_R.created_at < before, IS_SEEN)
        newest = old.order_by(_R.created_at.desc()).limit(_MOST_AT_ONCE)
        with self._database.connect() as connection:
            due = connection.execute(newest).all()
        with self._database.begin() as connection:
            for row in due:
                forget(connection, row.id, tenant=row.tenant, most=_MOST_AT_ONCE)
        return len(due)

    def _let_go_of_some(self) -> int:
        with self._database.connect() as connection:
            ids = unneeded(connection, limit=_MOST_AT_ONCE)
        with self._database.begin() as connection:
            for each in ids:
                let_go(connection, each, most=_MOST_AT_ONCE)
        return len(ids)


def forget_response(connection: sa.Connection, response_id: str, tenant: str) -> None:
    """Delete a response, in a transaction of the caller's, but for what others need of it.

    Raises:
        ResponseNotFoundError: the tenant has none of this id.
    """
    is_id = may_be_id(response_id)
    if not is_id or not forget(connection, response_id, tenant=tenant, most=_MOST_AT_ONCE):
        raise ResponseNotFoundError(response_id)


def _check_gone_on_from(links: Sequence[sa.Row[Any]]) -> None:
    """
    Raises:
        InvalidRequestError: the first of them, the newest, can't be gone on from.
    """
    wanted = links[0].id
    for link in links:
        if link.conversation_id is not None:
            raise InvalidRequestError(
                f"{wanted} is a turn of conversation {link.conversation_id}: name that in "
                "`conversation`, or fork it at an item of this response",
                param=_PARAM,
            )
        if not link.hidden and (status := link.response.get("status")) in _UNANSWERED:
            raise InvalidRequestError(
                f"{link.id} is {status}: go on from a response that has been answered", param=_PARAM
            )
    if links[-1].previous_id is not None:
        raise InvalidRequestError(
            f"what {wanted} goes on from was deleted; send the whole conversation as input",
            param=_PARAM,
        )


def insert_response(connection: sa.Connection, response: StoredResponse) -> None:
    """Write a response, in a transaction of the caller's.

    Raises:
        NotStoredError: what it goes on from was deleted meanwhile.
    """
    if response.previous_id is not None and not take_hold(connection, response.previous_id):
        raise NotStoredError(f"response {response.previous_id} was deleted meanwhile")
    values = {name: getattr(response, name) for name in _COLUMNS}
    connection.execute(sa.insert(stored_responses).values(**values))


def delete_responses_of(connection: sa.Connection, conversation_id: str) -> None:
    """Delete those of a conversation, in a transaction of the caller's."""
    connection.execute(sa.delete(stored_responses).where(_R.conversation_id == conversation_id))
    delete_runs(connection, agent_runs.c.conversation_id == conversation_id)


def _row(connection: sa.Connection, response_id: str, tenant: str) -> sa.Row[Any]:
    found = sa.select(stored_responses).where(_R.id == response_id, _R.tenant == tenant, IS_SEEN)
    row = connection.execute(found).one_or_none() if may_be_id(response_id) else None
    if row is None:
        raise ResponseNotFoundError(response_id)
    return row


def _response(row: sa.Row[Any]) -> StoredResponse:
    return StoredResponse(**{name: getattr(row, name) for name in _COLUMNS})
