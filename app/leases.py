"""Rows that one gateway at a time works on: it says so in the row (`owner`), for a while at a time
(`owned_until`); whoever is silent for longer may be taken over from. Pure: it makes SQL.

All that a statement asks is in its condition, so whoever is faster has the row, on SQLite and on
PostgreSQL alike, and to be slower shows in the number of rows that were changed.
"""

from typing import Any

import sqlalchemy as sa

# Whoever is next may have it now.
NOBODYS: dict[str, Any] = {"owner": None, "owned_until": 0.0}


class Lease:
    """Who works on the rows of a table.

    Args:
        table: it has `owner` and `owned_until`.
        seconds: how long a row is its owner's after the last word of that.
    """

    def __init__(self, table: sa.Table, *, seconds: float) -> None:
        self._table = table
        self._owner: sa.Column[str | None] = table.c.owner
        self._until: sa.Column[float] = table.c.owned_until
        self._seconds = seconds

    def values(self, owner: str, now: float) -> dict[str, Any]:
        """What stands in a row that is an owner's from now on."""
        return {"owner": owner, "owned_until": now + self._seconds}

    def free(self, now: float) -> sa.ColumnElement[bool]:
        """Nobody works on it, or whoever did is silent."""
        return sa.or_(self._owner.is_(None), self._until < now)

    def next_free(self, now: float, *which: sa.ColumnElement[bool]) -> sa.Select[float | None]:
        """When the first of the rows that aren't free will be, if no more is heard of its owner.

        NULL where all are free.
        """
        later = (self._owner.is_not(None), self._until >= now)
        return sa.select(sa.func.min(self._until)).where(*which, *later)

    def open_to(self, owner: str, now: float) -> sa.ColumnElement[bool]:
        """It is this owner's, also from before a restart, or free."""
        return sa.or_(self._owner == owner, self.free(now))

    def held_by(self, owner: str) -> sa.ColumnElement[bool]:
        """Nobody else has taken it over."""
        return self._owner == owner

    def due(self, now: float) -> sa.ColumnElement[bool]:
        """Half of the time is over: to say it again is worth a write."""
        return self._until < now + self._seconds / 2

    def take(self, owner: str, now: float, *which: sa.ColumnElement[bool]) -> sa.Update:
        """Make rows this owner's that are open to it."""
        where = (*which, self.open_to(owner, now))
        return sa.update(self._table).where(*where).values(**self.values(owner, now))

    def renew(self, owner: str, now: float, *which: sa.ColumnElement[bool]) -> sa.Update:
        """Say of rows that are this owner's that it lives."""
        where = (*which, self.held_by(owner))
        return sa.update(self._table).where(*where).values(**self.values(owner, now))

    def let_go(self, *which: sa.ColumnElement[bool]) -> sa.Update:
        """Make rows anybody's."""
        return sa.update(self._table).where(*which).values(**NOBODYS)
