"""Chains of responses, one gone on from the other, in transactions of the caller's.

One that was deleted, or whose time is over, is hidden: nobody sees it, nobody goes on from it, and
all that stays of it is what the prompts of those that went on from it show. It is gone when the
last of those is.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from app.agents.rows import forget_ended, said_in_run
from app.stored.items import output_items
from app.stored.records import JSONObject, SaidItem
from app.tables import agent_runs, stored_responses

_R = stored_responses.c
_LATER = stored_responses.alias("later")
IS_SEEN = _R.hidden.is_(False)
_IS_HIDDEN = _R.hidden.is_(True)
_LINK = sa.select(stored_responses, sa.exists().where(agent_runs.c.id == _R.id).label("in_run"))
_IS_NEEDED = sa.exists().where(_LATER.c.previous_id == _R.id)


def links_of(connection: sa.Connection, response_id: str, tenant: str) -> list[sa.Row[Any]]:
    """A response and all that it goes on from, as far as they are there, the newest first."""
    first = (
        sa.select(_R.id, _R.previous_id, sa.literal(0).label("back"))
        .where(_R.id == response_id, _R.tenant == tenant)
        .cte("links", recursive=True)
    )
    before = sa.select(_LATER.c.id, _LATER.c.previous_id, first.c.back + 1).where(
        _LATER.c.id == first.c.previous_id, _LATER.c.tenant == tenant
    )
    links = first.union_all(before)
    ordered = _LINK.join(links, links.c.id == _R.id).order_by(links.c.back)
    return list(connection.execute(ordered))


def said_in(connection: sa.Connection, link: sa.Row[Any]) -> list[SaidItem]:
    """What was asked and answered in one response of a chain."""
    if link.said is not None:
        return [_item(each) for each in link.said]
    items = [SaidItem(item=item) for item in link.input]
    in_run = said_in_run(connection, link.id) if link.in_run else None
    return items + (
        in_run
        or output_items(
            link.response.get("output", ()), output_ids=link.output_ids, tokenizer=link.tokenizer
        )
    )


def take_hold(connection: sa.Connection, response_id: str) -> bool:
    """Keep a response for one that goes on from it and is about to be written; whether it is there.

    A write, so that nobody lets go of it before that one is there.
    """
    same = sa.update(stored_responses).where(_R.id == response_id).values(hidden=_R.hidden)
    return bool(connection.execute(same).rowcount)


def forget(connection: sa.Connection, response_id: str, *, tenant: str, most: int) -> bool:
    """Hide a response, and let go of what nothing needs: it, and hidden ones before it. Whether it
    was there.

    Args:
        most: how many are let go of; the rest is found by `unneeded`.
    """
    # A write first: SQLite lets one writer in at a time, and PostgreSQL locks the row.
    which = (_R.id == response_id, _R.tenant == tenant, IS_SEEN)
    seen = connection.execute(sa.update(stored_responses).where(*which).values(hidden=True))
    if not seen.rowcount:
        return False
    if let_go(connection, response_id, most=most):
        return True
    link = connection.execute(_LINK.where(_R.id == response_id)).one()
    said = [_json(each) for each in said_in(connection, link)]
    emptied: JSONObject = {"response": {}, "input": [], "output_ids": None, "tokenizer": None}
    hidden = sa.update(stored_responses).where(_R.id == response_id)
    connection.execute(hidden.values(said=said, **emptied))
    forget_ended(connection, response_id)
    return True


def let_go(connection: sa.Connection, response_id: str, *, most: int) -> int:
    """Delete a hidden response that nothing goes on from, and those before it of which that is
    then true; how many that were."""
    wanted: str | None = response_id
    for done in range(most):
        if wanted is None or not take_hold(connection, wanted):
            return done
        before = connection.scalar(sa.select(_R.previous_id).where(_R.id == wanted))
        gone = sa.delete(stored_responses).where(_R.id == wanted, _IS_HIDDEN, ~_IS_NEEDED)
        if not connection.execute(gone).rowcount:
            return done
        forget_ended(connection, wanted)
        wanted = before
    return most


def unneeded(connection: sa.Connection, *, limit: int) -> Sequence[str]:
    """Hidden responses that nothing goes on from any more."""
    found = sa.select(_R.id).where(_IS_HIDDEN, ~_IS_NEEDED).limit(limit)
    return connection.execute(found).scalars().all()


def _json(said: SaidItem) -> JSONObject:
    ids = said.output_ids
    return {
        "item": dict(said.item),
        "output_ids": None if ids is None else b64encode(ids).decode(),
        "tokenizer": said.tokenizer,
    }


def _item(said: JSONObject) -> SaidItem:
    ids = said["output_ids"]
    return SaidItem(
        item=said["item"],
        output_ids=None if ids is None else b64decode(ids),
        tokenizer=said["tokenizer"],
    )
