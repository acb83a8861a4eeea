"""What is remembered of corpora over a restart: which were in use, and which the engine held."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.tables import corpora
from retrieval.tables import collections


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRecord:
    """A corpus as it was last written down.

    Attributes:
        address: of the prefix that was served.
        resident: whether the engine held all of it.
        demand, demand_at: how often it was asked for, at a time in seconds since the epoch.
        verified_at: when it was last shown to be resident; seconds since the epoch.
    """

    collection_id: str
    tenant: str
    address: str | None = None
    tokens: int | None = None
    resident: bool = False
    demand: float = 0.0
    demand_at: float = 0.0
    verified_at: float | None = None


class CorpusRecords:
    """The table of corpora. Every call blocks."""

    def __init__(self, database: sa.Engine) -> None:
        self._database = database

    def read(self) -> list[CorpusRecord]:
        """All that were written down."""
        with self._database.connect() as connection:
            rows = connection.execute(sa.select(corpora)).mappings().all()
        return [CorpusRecord(**row) for row in rows]

    def pinned(self) -> list[tuple[str, str]]:
        """Id and tenant of each collection that is always to be shown whole."""
        query = sa.select(collections.c.id, collections.c.tenant).where(collections.c.mode == "cag")
        with self._database.connect() as connection:
            return [(row.id, row.tenant) for row in connection.execute(query)]

    def write(self, records: Sequence[CorpusRecord]) -> None:
        """Write down what changed."""
        with self._database.begin() as connection:
            for record in records:
                connection.execute(_of(record.collection_id))
                connection.execute(sa.insert(corpora).values(**_values(record)))

    def forget(self, collection_id: str) -> None:
        """A collection is gone."""
        with self._database.begin() as connection:
            connection.execute(_of(collection_id))


def _of(collection_id: str) -> sa.Delete:
    return sa.delete(corpora).where(corpora.c.collection_id == collection_id)


def _values(record: CorpusRecord) -> dict[str, object]:
    return {column.name: getattr(record, column.name) for column in corpora.columns}
