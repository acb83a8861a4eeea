"""Turns in the database: one conversation's come one after the other.

Who begins a turn takes the conversation for as long as it says that it lives; what was asked and
answered is written in one transaction at the turn's end. A gateway that dies leaves the
conversation as it was before the turn.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from app.errors import ConversationBusyError, NotStoredError
from app.stored.records import (
    Conversation,
    Said,
    SaidItem,
    StoredResponse,
    Summary,
    with_positions,
)
from app.stored.responses import WriteResponse, insert_response
from app.stored.rows import check_id, conversation_of, read_row, read_said, write_items
from app.tables import conversations

# A gateway says this often that its turns live; after so long without a word they are over.
ALIVE_S = 5.0
LEASE_S = 15.0

_C = conversations.c


class TurnStore:
    """To be called in worker threads. `now` gives seconds since the epoch."""

    def __init__(self, database: sa.Engine, *, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    def begin_turn(
        self, conversation_id: str, response_id: str, *, tenant: str
    ) -> tuple[Conversation, Said]:
        """Take the conversation for a turn; what was said in it so far.

        Raises:
            ConversationNotFoundError: the tenant has no such conversation.
            ConversationBusyError: another turn is under way.
        """
        now = self._now()
        check_id(conversation_id)
        with self._database.begin() as connection:
            taken = connection.execute(
                sa.update(conversations)
                .where(
                    _C.id == conversation_id,
                    _C.tenant == tenant,
                    sa.or_(_C.turn.is_(None), _C.turn_until < now),
                )
                .values(turn=response_id, turn_until=now + LEASE_S, used_at=now)
            )
            row = read_row(connection, conversation_id, tenant)
            if taken.rowcount == 0:
                raise ConversationBusyError(conversation_id, row.turn)
            return conversation_of(row), read_said(connection, row)

    def read_said(self, conversation_id: str, *, tenant: str) -> tuple[Conversation, Said]:
        """The same, for whoever has the conversation already.

        Raises:
            ConversationNotFoundError: the tenant has no such conversation.
        """
        with self._database.connect() as connection:
            row = read_row(connection, conversation_id, tenant)
            return conversation_of(row), read_said(connection, row)

    def keep_alive(self, turns: Iterable[tuple[str, str]]) -> None:
        """Say of these turns (conversation, response) that they are still being answered."""
        until = self._now() + LEASE_S
        with self._database.begin() as connection:
            for conversation_id, response_id in turns:
                connection.execute(
                    sa.update(conversations)
                    .where(
                        _C.id == conversation_id,
                        _C.turn == response_id,
                        # An agent's run has it for longer.
                        _C.turn_until < until,
                    )
                    .values(turn_until=until)
                )

    def end_turn(
        self,
        conversation_id: str,
        items: Sequence[SaidItem],
        *,
        response_id: str,
        tokens: int | None,
        response: StoredResponse | None,
        write: WriteResponse = insert_response,
    ) -> None:
        """Keep a turn, all of it at once, and give the conversation free.

        Args:
            write: writes the response.

        Raises:
            NotStoredError: it was deleted meanwhile, or taken by another turn.
        """
        with self._database.begin() as connection:
            self.end_turn_in(connection, conversation_id, items, response_id, tokens)
            if response is not None:
                write(connection, response)

    def end_turn_in(
        self,
        connection: sa.Connection,
        conversation_id: str,
        items: Sequence[SaidItem],
        response_id: str,
        tokens: int | None,
    ) -> None:
        """The same in a transaction of the caller's, who writes the response."""
        new: dict[str, Any] = {"turn": None, "turn_until": None, "used_at": self._now()}
        # A write first, so that nobody deletes it or takes it over meanwhile.
        done = connection.execute(
            sa.update(conversations)
            .where(_C.id == conversation_id, _C.turn == response_id)
            .values(**new, tokens=tokens, next_position=_C.next_position + len(items))
        )
        if done.rowcount == 0:
            raise NotStoredError(f"conversation {conversation_id} was deleted or taken over")
        end = connection.execute(
            sa.select(_C.next_position).where(_C.id == conversation_id)
        ).scalar_one()
        write_items(connection, conversation_id, with_positions(items, end - len(items)))

    def leave_turn(self, conversation_id: str, response_id: str) -> None:
        """Give the conversation free as it was before the turn."""
        with self._database.begin() as connection:
            connection.execute(
                sa.update(conversations)
                .where(_C.id == conversation_id, _C.turn == response_id)
                .values(turn=None, turn_until=None)
            )

    def compact(self, conversation_id: str, response_id: str, summary: Summary) -> None:
        """From now on the summary stands for the items up to its place.

        Raises:
            NotStoredError: it was deleted meanwhile, or taken by another turn.
        """
        with self._database.begin() as connection:
            done = connection.execute(
                sa.update(conversations)
                .where(_C.id == conversation_id, _C.turn == response_id)
                .values(summary={"text": summary.text}, summary_through=summary.through)
            )
        if done.rowcount == 0:
            raise NotStoredError(f"conversation {conversation_id} was deleted or taken over")
