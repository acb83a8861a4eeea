"""Rows of conversations and their items, for the stores that change them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from app.errors import ConversationItemNotFoundError, ConversationNotFoundError
from app.stored.records import (
    Compaction,
    Conversation,
    Said,
    SaidItem,
    Summary,
    may_be_id,
)
from app.stored.responses import delete_responses_of
from app.tables import conversation_items, conversations

_C, _I = conversations.c, conversation_items.c


def check_id(conversation_id: str) -> None:
    """Raises ConversationNotFoundError: none can be called so."""
    if not may_be_id(conversation_id):
        raise ConversationNotFoundError(conversation_id)


def options_json(compaction: Compaction | None, *, isolated: bool) -> dict[str, Any]:
    """As they are stored."""
    return {"compaction": asdict(compaction) if compaction else None, "isolated": isolated}


def read_row(connection: sa.Connection, conversation_id: str, tenant: str) -> sa.Row[Any]:
    """Raises ConversationNotFoundError: the tenant has no such conversation."""
    check_id(conversation_id)
    found = sa.select(conversations).where(_C.id == conversation_id, _C.tenant == tenant)
    row = connection.execute(found).one_or_none()
    if row is None:
        raise ConversationNotFoundError(conversation_id)
    return row


def read_item_row(connection: sa.Connection, conversation_id: str, item_id: str) -> sa.Row[Any]:
    """Raises ConversationItemNotFoundError: the conversation has no such item."""
    found = sa.select(conversation_items).where(
        _I.conversation_id == conversation_id, _I.id == item_id
    )
    row = connection.execute(found).one_or_none() if may_be_id(item_id) else None
    if row is None:
        raise ConversationItemNotFoundError(conversation_id, item_id)
    return row


def read_said(connection: sa.Connection, row: sa.Row[Any]) -> Said:
    """All that the next prompt shows of a conversation."""
    found = sa.select(conversation_items).where(_I.conversation_id == row.id)
    summary = conversation_of(row).summary
    if summary is not None:
        found = found.where(_I.position > summary.through)
    rows = connection.execute(found.order_by(_I.position)).all()
    return Said(items=[item_of(each) for each in rows], summary=summary)


def write_items(connection: sa.Connection, conversation_id: str, items: Sequence[SaidItem]) -> None:
    """Write items at their places, in a transaction of the caller's."""
    if not items:
        return
    connection.execute(
        sa.insert(conversation_items),
        [
            {
                "conversation_id": conversation_id,
                "position": item.position,
                "id": item.id,
                "item": dict(item.item),
                "output_ids": item.output_ids,
                "tokenizer": item.tokenizer,
            }
            for item in items
        ],
    )


def drop(connection: sa.Connection, conversation_id: str) -> None:
    """Delete a conversation and all that belongs to it, in a transaction of the caller's."""
    connection.execute(sa.delete(conversation_items).where(_I.conversation_id == conversation_id))
    delete_responses_of(connection, conversation_id)
    connection.execute(sa.delete(conversations).where(_C.id == conversation_id))


def item_of(row: sa.Row[Any]) -> SaidItem:
    """An item from its row."""
    return SaidItem(
        item=row.item, position=row.position, output_ids=row.output_ids, tokenizer=row.tokenizer
    )


def conversation_of(row: sa.Row[Any]) -> Conversation:
    """A conversation from its row."""
    compaction, summary = row.options.get("compaction"), None
    if row.summary is not None:
        summary = Summary(text=row.summary["text"], through=row.summary_through)
    return Conversation(
        id=row.id,
        tenant=row.tenant,
        created_at=row.created_at,
        used_at=row.used_at,
        metadata=row.metadata,
        compaction=Compaction(**compaction) if compaction else None,
        isolated=bool(row.options.get("isolated")),
        forked_from=row.forked_from,
        tokens=row.tokens,
        summary=summary,
    )
