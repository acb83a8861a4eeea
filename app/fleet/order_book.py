"""What operators ordered of replicas, in the database. All of it blocks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import sqlalchemy as sa

from app.admission.audit import write_audit
from app.callers import Caller
from app.tables import replica_orders


class Standing(StrEnum):
    """What an operator wants of a replica."""

    IN_USE = "in use"
    CORDONED = "cordoned"
    DRAINED = "drained"
    REMOVED = "removed"

    @property
    def is_out(self) -> bool:
        """Whether it is to be there no more."""
        return self in (Standing.DRAINED, Standing.REMOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The last order about a replica; `added` says that it is there by order only."""

    url: str
    name: str
    added: bool
    standing: Standing
    ordered_at: datetime


class OrderBook:
    """The table, and nothing kept in memory."""

    def __init__(self, database: sa.Engine) -> None:
        self._database = database

    def load(self) -> Mapping[str, Order]:
        """All orders that stand, by URL."""
        with self._database.connect() as connection:
            rows = connection.execute(sa.select(replica_orders)).mappings().all()
        return {row["url"]: _order(row) for row in rows}

    def give(
        self, url: str, name: str, standing: Standing, *, by: Caller, action: str, adds: bool
    ) -> Order:
        """Note an order, and in the audit log who gave it."""
        try:
            return self._give(url, name, standing, by=by, action=action, adds=adds)
        except sa.exc.IntegrityError:  # another gateway noted the first one a moment earlier
            return self._give(url, name, standing, by=by, action=action, adds=adds)

    def forget(self, urls: Iterable[str]) -> None:
        """Replicas that no source names any more: another engine may come to their address."""
        with self._database.begin() as connection:
            gone = replica_orders.c.url.in_(list(urls)) & ~replica_orders.c.added
            connection.execute(sa.delete(replica_orders).where(gone))

    def _give(
        self, url: str, name: str, standing: Standing, *, by: Caller, action: str, adds: bool
    ) -> Order:
        now, here = datetime.now(UTC), replica_orders.c.url == url
        with self._database.begin() as connection:
            write_audit(connection, by, action, name, {"url": url})
            added = connection.scalar(sa.select(replica_orders.c.added).where(here))
            values = {
                "name": name, "added": adds or bool(added), "standing": standing.value,
                "ordered_at": now,
            }  # fmt: skip
            if added is None:
                connection.execute(sa.insert(replica_orders).values(url=url, **values))
            else:
                connection.execute(sa.update(replica_orders).where(here).values(**values))
            row = connection.execute(sa.select(replica_orders).where(here)).mappings().one()
        return _order(row)


def _order(row: sa.RowMapping) -> Order:
    return Order(
        url=row["url"],
        name=row["name"],
        added=row["added"],
        standing=Standing(row["standing"]),
        ordered_at=row["ordered_at"],
    )
