"""Vectors in PostgreSQL, by its extension pgvector: for collections that outgrow a process.

Several gateways share one copy, and memory is the server's. Each collection has a table of its
own, so that its index knows no other's vectors, and a search for it passes over none. All of it is
derived, in a schema of its own; it may be dropped at any time and is filled again.

A table may be ahead of a view: another gateway may have brought it up already. A view therefore
leaves out documents that it doesn't know, and a table is never taken back to an earlier revision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, text

from retrieval.embed import Vectors
from retrieval.errors import IndexVanishedError, StorageError
from retrieval.index_views import (
    Allowed,
    DocumentKey,
    Hits,
    VectorView,
    best,
    no_hits,
    place_of,
)
from retrieval.records import Collection
from retrieval.transactions import transaction
from retrieval.vectors.pgvector_tables import (
    SCHEMA,
    SETUP,
    add,
    claim,
    documents_there,
    drop,
    remove,
    table_of,
    unchanged,
    written,
)

# So many more than k are asked for: ties at the end, and documents that a view doesn't know.
_SPARE = 16
# PostgreSQL's code, also where the schema is missing.
_UNDEFINED_TABLE = "42P01"
# pgvector's own bound of `hnsw.ef_search`.
_MOST_DEPTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PgVectorSettings:
    """How PostgreSQL searches.

    Attributes:
        index_from: vectors from which a graph (HNSW) is built; below, all are looked at.
        links, build_depth, search_depth: of the graph, see `FaissSettings`.
        exhaustive_rows: where a filter leaves no more than these, all of them are looked at.
    """

    index_from: int = 10_000
    links: int = 16
    build_depth: int = 80
    search_depth: int = 128
    exhaustive_rows: int = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class PgVectorView:
    """A collection's vectors as far as its documents are known."""

    documents: tuple[DocumentKey, ...]
    engine: Engine
    table: str
    chunk_counts: Mapping[int, int]  # by document position
    settings: PgVectorSettings
    _known: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(self.chunk_counts))

    def __len__(self) -> int:
        return sum(self.chunk_counts.values())

    def search(self, query: Vectors, k: int, allowed: Allowed | None = None) -> Hits:
        """See `VectorView.search`. Exact where there is no graph or few rows are allowed.

        Raises:
            IndexVanishedError: the table has gone, with its collection or alone.
            StorageError: the server refused.
        """
        try:
            return self._found(query, k, allowed)
        except StorageError as error:
            if _is_of_no_table(error):
                raise IndexVanishedError(error.where, error.why) from error
            raise

    def _found(self, query: Vectors, k: int, allowed: Allowed | None) -> Hits:
        positions = self._positions(allowed)
        count = sum(self.chunk_counts[position] for position in positions)
        k = min(k, count)
        if k == 0:
            return no_hits()
        only = None if allowed is None else positions
        with transaction(self.engine) as connection:
            if allowed is None or count > self.settings.exhaustive_rows:
                found = self._approximate(connection, query, k, only, wider=len(self) / count)
                if len(found) == k:
                    return found
            return self._exhaustive(connection, query, k, positions)

    def _positions(self, allowed: Allowed | None) -> list[int]:
        if allowed is None:
            return sorted(self._known)
        return [int(at) for at in np.flatnonzero(allowed.documents) if int(at) in self._known]

    def _approximate(
        self,
        connection: Connection,
        query: Vectors,
        k: int,
        only: Sequence[int] | None,
        *,
        wider: float,
    ) -> Hits:
        depth = min(_MOST_DEPTH, max(k + _SPARE, round(self.settings.search_depth * wider)))
        connection.execute(text(f"SET LOCAL hnsw.ef_search = {depth:d}"))
        connection.execute(text("SET LOCAL hnsw.iterative_scan = strict_order"))
        where = "" if only is None else "WHERE document_position = ANY(:only)"
        statement = f"""SELECT document_position, position, -(embedding <#> :query) AS score
            FROM {self.table} {where} ORDER BY embedding <#> :query LIMIT :k"""
        values = {"query": written(query[0]), "k": k + _SPARE}
        return self._hits(connection, statement, values | ({"only": only} if only else {}), k)

    def _exhaustive(
        self, connection: Connection, query: Vectors, k: int, positions: Sequence[int]
    ) -> Hits:
        # Apart from the rest, so that the planner can't take the graph for it.
        statement = f"""WITH allowed AS MATERIALIZED (
                SELECT document_position, position, -(embedding <#> :query) AS score
                FROM {self.table} WHERE document_position = ANY(:only))
            SELECT * FROM allowed ORDER BY score DESC, document_position, position LIMIT :k"""
        values = {"query": written(query[0]), "k": k, "only": list(positions)}
        return self._hits(connection, statement, values, k)

    def _hits(
        self, connection: Connection, statement: str, values: Mapping[str, Any], k: int
    ) -> Hits:
        rows = connection.execute(text(statement), values).all()
        known = [row for row in rows if row.document_position in self._known]
        places = [place_of(row.document_position, row.position) for row in known]
        scores = [row.score for row in known]
        return best(np.array(places, np.int64), np.array(scores, np.float32), k)


class PgVectorBackend:
    """Vectors of all collections in one PostgreSQL database.

    Args:
        engine: of a database whose owner may create the extension, or where it exists.
    """

    def __init__(self, engine: Engine, *, settings: PgVectorSettings | None = None) -> None:
        self._engine = engine
        self._settings = settings or PgVectorSettings()
        self._is_set_up = False

    def view(
        self,
        connection: Connection,
        collection: Collection,
        documents: tuple[DocumentKey, ...],
        held: VectorView | None,
    ) -> PgVectorView:
        """See `VectorBackend.view`.

        Raises:
            StorageError: the server refused.
        """
        self._set_up()
        try:
            return self._brought_up(connection, collection, documents, held)
        except StorageError as error:
            if not _is_of_no_table(error):
                raise
        self._is_set_up = False  # all of it was dropped
        self._set_up()
        return self._brought_up(connection, collection, documents, None)

    def _brought_up(
        self,
        connection: Connection,
        collection: Collection,
        documents: tuple[DocumentKey, ...],
        held: VectorView | None,
    ) -> PgVectorView:
        table = table_of(collection.id)
        with transaction(self._engine) as server:
            is_ahead = claim(server, collection, table)
            there = documents_there(server, collection.id)
            if not is_ahead:
                known = there
                if held is None:
                    known = unchanged(connection, collection, there)
                wanted = set(documents)
                gone = [key for key in there if key not in known or key not in wanted]
                remove(server, collection.id, table, gone)
                added = [key for key in documents if key not in known]
                add(server, connection, collection, table, added)
                there = documents_there(server, collection.id)
        counts = {key.position: there[key].chunk_count for key in documents if key in there}
        return PgVectorView(documents, self._engine, table, counts, self._settings)

    def rebuilt(self, collection: Collection, view: VectorView) -> PgVectorView | None:
        """Builds the graph, once; the server keeps it up from then on."""
        if len(view) < self._settings.index_from:
            return None
        table = table_of(collection.id)
        with transaction(self._engine) as server:
            server.execute(text("SET LOCAL statement_timeout = 0"))
            server.execute(text("SET LOCAL max_parallel_maintenance_workers = 0"))
            server.execute(text("SET LOCAL maintenance_work_mem = '256MB'"))
            server.execute(
                text(f"""CREATE INDEX IF NOT EXISTS {table.rpartition(".")[2]}_graph ON {table}
                    USING hnsw (embedding vector_ip_ops)
                    WITH (m = {self._settings.links:d},
                          ef_construction = {self._settings.build_depth:d})""")
            )
        return None

    def forget(self, collection_id: str) -> None:
        """Removes a deleted collection's table.

        Raises:
            StorageError: the server refused.
        """
        self._set_up()
        with transaction(self._engine) as server:
            drop(server, collection_id)

    def held(self) -> set[str]:
        """Ids of the collections that something is held for.

        Raises:
            StorageError: the server refused.
        """
        self._set_up()
        with transaction(self._engine) as server:
            return set(
                server.execute(text(f"SELECT collection_id FROM {SCHEMA}.collections")).scalars()
            )

    def _set_up(self) -> None:
        if self._is_set_up:
            return
        with transaction(self._engine) as server:
            # `IF NOT EXISTS` alone fails when two gateways come at once.
            server.execute(text("SELECT pg_advisory_xact_lock(hashtext('foreword_vectors'))"))
            for statement in SETUP:
                server.execute(text(statement))
        self._is_set_up = True


def _is_of_no_table(error: StorageError) -> bool:
    """Whether a statement named a table that isn't there."""
    told = getattr(error.__cause__, "orig", None)
    return getattr(told, "sqlstate", None) == _UNDEFINED_TABLE
