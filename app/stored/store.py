"""Conversations in the database: made, read, changed, forked and deleted."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from app.errors import ConversationBusyError, InvalidRequestError
from app.stored.records import Compaction, Conversation, SaidItem, with_positions
from app.stored.rows import (
    check_id,
    conversation_of,
    drop,
    item_of,
    options_json,
    read_item_row,
    read_row,
    write_items,
)
from app.stored.turn_store import TurnStore
from app.tables import conversation_items, conversations

_C, _I = conversations.c, conversation_items.c


class ConversationStore(TurnStore):
    """All of a conversation: its turns, and what people do to it beside them."""

    def create(
        self,
        *,
        tenant: str,
        metadata: Mapping[str, str],
        items: Sequence[SaidItem] = (),
        compaction: Compaction | None = None,
        isolated: bool = False,
    ) -> Conversation:
        """A new conversation that begins with these items."""
        with self._database.begin() as connection:
            made = self._insert(
                connection,
                tenant=tenant,
                metadata=metadata,
                options=options_json(compaction, isolated=isolated),
                items=with_positions(items, 0),
            )
        return made

    def get(self, conversation_id: str, *, tenant: str) -> Conversation:
        """Raises ConversationNotFoundError."""
        with self._database.connect() as connection:
            return conversation_of(read_row(connection, conversation_id, tenant))

    def update(
        self,
        conversation_id: str,
        *,
        tenant: str,
        metadata: Mapping[str, str] | None,
        compaction: Compaction | None,
        sets_compaction: bool,
    ) -> Conversation:
        """Change the metadata, and when it is compacted.

        Raises:
            ConversationNotFoundError: the tenant has no such conversation.
        """
        with self._database.begin() as connection:
            before = conversation_of(read_row(connection, conversation_id, tenant))
            new: dict[str, Any] = {}
            if metadata is not None:
                new["metadata"] = dict(metadata)
            if sets_compaction:
                new["options"] = options_json(compaction, isolated=before.isolated)
            if new:
                connection.execute(
                    sa.update(conversations).where(_C.id == conversation_id).values(**new)
                )
            return conversation_of(read_row(connection, conversation_id, tenant))

    def page(
        self, *, tenant: str, after: str | None, limit: int, newest_first: bool
    ) -> tuple[list[Conversation], bool]:
        """A page of a tenant's conversations, and whether there are more.

        Raises:
            ConversationNotFoundError: there is none to begin after.
        """
        with self._database.connect() as connection:
            found = sa.select(conversations).where(_C.tenant == tenant)
            if after is not None:
                at = read_row(connection, after, tenant)
                place = sa.tuple_(_C.created_at, _C.id)
                here = sa.tuple_(sa.literal(at.created_at), sa.literal(at.id))
                found = found.where(place < here if newest_first else place > here)
            order = [_C.created_at, _C.id]
            found = found.order_by(*(o.desc() if newest_first else o.asc() for o in order))
            rows = connection.execute(found.limit(limit + 1)).all()
        return [conversation_of(row) for row in rows[:limit]], len(rows) > limit

    def delete(
        self,
        conversation_id: str,
        *,
        tenant: str,
        also: Callable[[sa.Connection], None] | None = None,
    ) -> None:
        """Delete it with its items and responses; `also` is done in the same transaction.

        Raises:
            ConversationNotFoundError: the tenant has no such conversation.
        """
        with self._database.begin() as connection:
            read_row(connection, conversation_id, tenant)
            if also is not None:
                also(connection)
            drop(connection, conversation_id)

    def unused(self, *, before: float, limit: int = 100) -> list[Conversation]:
        """Conversations that nobody has used since."""
        found = sa.select(conversations).where(_C.used_at < before).order_by(_C.used_at)
        with self._database.connect() as connection:
            return [conversation_of(row) for row in connection.execute(found.limit(limit)).all()]

    def items_page(
        self,
        conversation_id: str,
        *,
        tenant: str,
        after: str | None,
        limit: int,
        newest_first: bool,
    ) -> tuple[list[SaidItem], bool]:
        """A page of items, and whether there are more.

        Raises:
            ConversationNotFoundError, ConversationItemNotFoundError: one of them isn't there.
        """
        with self._database.connect() as connection:
            read_row(connection, conversation_id, tenant)
            found = sa.select(conversation_items).where(_I.conversation_id == conversation_id)
            if after is not None:
                at = read_item_row(connection, conversation_id, after).position
                found = found.where(_I.position < at if newest_first else _I.position > at)
            order = _I.position.desc() if newest_first else _I.position.asc()
            rows = connection.execute(found.order_by(order).limit(limit + 1)).all()
        return [item_of(row) for row in rows[:limit]], len(rows) > limit

    def item(self, conversation_id: str, item_id: str, *, tenant: str) -> SaidItem:
        """Raises ConversationNotFoundError, ConversationItemNotFoundError."""
        with self._database.connect() as connection:
            read_row(connection, conversation_id, tenant)
            return item_of(read_item_row(connection, conversation_id, item_id))

    def add_items(
        self, conversation_id: str, items: Sequence[SaidItem], *, tenant: str
    ) -> list[SaidItem]:
        """Append items.

        Raises:
            ConversationNotFoundError: the tenant has no such conversation.
            ConversationBusyError: a turn of it is under way.
        """
        with self._database.begin() as connection:
            row = self._locked(connection, conversation_id, tenant)
            return self._append(connection, row, items)

    def delete_item(self, conversation_id: str, item_id: str, *, tenant: str) -> Conversation:
        """Take an item out; what comes after it is computed anew in the next turn.

        Raises:
            ConversationNotFoundError, ConversationItemNotFoundError: one of them isn't there.
            ConversationBusyError: a turn is under way.
            InvalidRequestError: a summary stands for the item already.
        """
        with self._database.begin() as connection:
            row = self._locked(connection, conversation_id, tenant)
            item = read_item_row(connection, conversation_id, item_id)
            if row.summary_through is not None and item.position <= row.summary_through:
                raise InvalidRequestError(
                    f"item {item_id} was compacted into a summary, which would still tell of it; "
                    "delete the conversation, or fork it before that item",
                    param="item_id",
                )
            connection.execute(
                sa.delete(conversation_items).where(
                    _I.conversation_id == conversation_id, _I.position == item.position
                )
            )
            return conversation_of(row)

    def fork(
        self,
        conversation_id: str,
        *,
        tenant: str,
        through: str | None,
        metadata: Mapping[str, str] | None,
    ) -> Conversation:
        """A conversation of its own that has the items up to one of them, or all.

        Raises:
            ConversationNotFoundError, ConversationItemNotFoundError: one of them isn't there.
        """
        with self._database.begin() as connection:
            row = read_row(connection, conversation_id, tenant)
            found = sa.select(conversation_items).where(_I.conversation_id == conversation_id)
            if through is not None:
                last = read_item_row(connection, conversation_id, through).position
                found = found.where(_I.position <= last)
            rows = connection.execute(found.order_by(_I.position)).all()
            end = rows[-1].position if rows else -1
            summed_up = row.summary_through is not None and row.summary_through <= end
            return self._insert(
                connection,
                tenant=tenant,
                metadata=row.metadata if metadata is None else metadata,
                options=row.options,
                items=[item_of(each) for each in rows],
                forked_from=conversation_id,
                # Where all is kept, so is its length.
                tokens=row.tokens if end == row.next_position - 1 else None,
                summary=row.summary if summed_up else None,
                summary_through=row.summary_through if summed_up else None,
            )

    def _insert(
        self,
        connection: sa.Connection,
        *,
        tenant: str,
        metadata: Mapping[str, str],
        options: Mapping[str, Any],
        items: Sequence[SaidItem],
        **further: Any,
    ) -> Conversation:
        now, made = self._now(), f"conv_{os.urandom(16).hex()}"
        last = items[-1].position if items else None
        connection.execute(
            sa.insert(conversations).values(
                id=made,
                tenant=tenant,
                created_at=now,
                used_at=now,
                metadata=dict(metadata),
                options=dict(options),
                next_position=0 if last is None else last + 1,
                **further,
            )
        )
        write_items(connection, made, items)
        return conversation_of(read_row(connection, made, tenant))

    def _append(
        self, connection: sa.Connection, row: sa.Row[Any], items: Sequence[SaidItem]
    ) -> list[SaidItem]:
        placed = with_positions(items, row.next_position)
        write_items(connection, row.id, placed)
        connection.execute(
            sa.update(conversations)
            .where(_C.id == row.id)
            .values(next_position=row.next_position + len(placed), used_at=self._now())
        )
        return placed

    def _locked(self, connection: sa.Connection, conversation_id: str, tenant: str) -> sa.Row[Any]:
        """The row, which no turn has and nobody else changes meanwhile."""
        check_id(conversation_id)
        # A write first: SQLite lets one writer in at a time, and PostgreSQL locks the row.
        connection.execute(
            sa.update(conversations)
            .where(_C.id == conversation_id, _C.tenant == tenant)
            .values(used_at=self._now())
        )
        row = read_row(connection, conversation_id, tenant)
        if row.turn is not None and row.turn_until >= self._now():
            raise ConversationBusyError(conversation_id, row.turn)
        return row
