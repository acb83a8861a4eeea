"""A collection in a database, written row by row: for tests of what is made from its rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy
from sqlalchemy import delete, func, insert, select, update

from retrieval.documents import AttributeValue
from retrieval.embed import Vectors, normalised
from retrieval.index_views import Allowed, DocumentKey, Hits, place_of
from retrieval.records import Collection
from retrieval.search_rows import select_documents_held
from retrieval.tables import (
    chunks,
    collection_files,
    collections,
    documents,
    files,
    metadata,
)

TENANT = "t"


def random_vectors(count: int, dimension: int = 16, seed: int = 0) -> Vectors:
    rng = np.random.default_rng(seed)
    return normalised(rng.standard_normal((count, dimension)).astype(np.float32))


class Rows:
    """One collection's rows and what a search of them should find."""

    def __init__(self, engine: sqlalchemy.Engine, *, id: str = "vs_1", dimension: int = 16) -> None:
        self.engine = engine
        self.id = id
        self.dimension = dimension
        self.vectors: dict[int, Vectors] = {}  # by place
        with engine.begin() as connection:
            connection.execute(
                insert(collections).values(
                    id=id, tenant=TENANT, name=id, embedder="e", dimension=dimension, created_at=0
                )
            )

    @property
    def collection(self) -> Collection:
        with self.engine.connect() as connection:
            row = connection.execute(select(collections).where(collections.c.id == self.id)).one()
        return Collection(
            id=row.id,
            tenant=row.tenant,
            name=row.name,
            embedder=row.embedder,
            dimension=row.dimension,
            revision=row.revision,
            created_at=row.created_at,
        )

    def document_keys(self) -> tuple[DocumentKey, ...]:
        with self.engine.connect() as connection:
            return tuple(select_documents_held(connection, self.id))

    def add(
        self,
        name: str,
        vectors: Vectors,
        *,
        texts: Sequence[str] | None = None,
        position: int | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        access: Sequence[str] = (),
    ) -> None:
        """Adds a document after all others, or at a position that is free."""
        with self.engine.begin() as connection:
            if position is None:
                last = connection.execute(
                    select(func.max(documents.c.position)).where(
                        documents.c.collection_id == self.id
                    )
                ).scalar_one()
                position = 0 if last is None else last + 1
            self._insert(connection, name, position, vectors, texts, attributes or {}, access)
        for at, vector in enumerate(vectors):
            self.vectors[place_of(position, at)] = vector

    def remove(self, name: str) -> None:
        with self.engine.begin() as connection:
            key = next(key for key in self.document_keys() if key.id == name)
            of_document = {documents: "id", chunks: "document_id", collection_files: "document_id"}
            for table, column in of_document.items():
                connection.execute(
                    delete(table).where(table.c.collection_id == self.id, table.c[column] == name)
                )
            self._raise_revision(connection)
        self.vectors = {p: v for p, v in self.vectors.items() if p >> 24 != key.position}

    def nearest(self, query: Vectors, k: int, allowed: Allowed | None = None) -> list[int]:
        """Places in the order that an exact search gives them."""
        scored = [
            (-float(vector @ query[0]), place)
            for place, vector in self.vectors.items()
            if allowed is None or allowed.documents[place >> 24]
        ]
        return [place for _, place in sorted(scored)[:k]]

    def _insert(
        self,
        connection: sqlalchemy.Connection,
        name: str,
        position: int,
        vectors: Vectors,
        texts: Sequence[str] | None,
        attributes: Mapping[str, AttributeValue],
        access: Sequence[str],
    ) -> None:
        file_id = f"file-{self.id}-{name}"
        if connection.execute(select(files.c.id).where(files.c.id == file_id)).first() is None:
            connection.execute(
                insert(files).values(
                    id=file_id,
                    tenant=TENANT,
                    name=f"{name}.txt",
                    purpose="assistants",
                    size_bytes=1,
                    digest=name,
                    created_at=0,
                    deleting=False,
                )
            )
        connection.execute(
            insert(collection_files).values(
                collection_id=self.id,
                file_id=file_id,
                status="completed",
                document_id=name,
                chunk_count=len(vectors),
                created_at=0,
                attributes=dict(attributes),
                access=list(access),
            )
        )
        connection.execute(
            insert(documents).values(
                collection_id=self.id,
                id=name,
                position=position,
                file_id=file_id,
                name=f"{name}.txt",
                media_type="text/plain",
                text="",
                token_count=0,
            )
        )
        rows = [
            {
                "collection_id": self.id,
                "document_id": name,
                "position": at,
                "id": f"chunk-{self.id}-{name}-{at}-{vector.tobytes().hex()[:8]}",
                "start": 0,
                "end": 0,
                "text": texts[at] if texts else f"{name} {at}",
                "token_count": 1,
                "page": None,
                "heading_path": [],
                "embedding": vector.astype("<f4").tobytes(),
            }
            for at, vector in enumerate(vectors)
        ]
        if rows:
            connection.execute(insert(chunks), rows)
        self._raise_revision(connection)

    def _raise_revision(self, connection: sqlalchemy.Connection) -> None:
        connection.execute(
            update(collections)
            .where(collections.c.id == self.id)
            .values(revision=collections.c.revision + 1)
        )


def quick_database(path: Path) -> sqlalchemy.Engine:
    """An SQLite file with retrieval's tables that waits for no disk."""
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    @sqlalchemy.event.listens_for(engine, "connect")
    def _hurry(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    metadata.create_all(engine)
    return engine


def allow(positions: Sequence[int], *, key: str, size: int | None = None) -> Allowed:
    """Documents at these positions."""
    mask = np.zeros(max(positions, default=-1) + 1 if size is None else size, np.bool_)
    mask[list(positions)] = True
    return Allowed(key, mask)


def places(hits: Hits) -> list[int]:
    return hits.places.tolist()
