"""The database comes up to the newest schema, and the migrations say what the tables say."""

from pathlib import Path

import alembic.autogenerate
import pytest
import sqlalchemy
from alembic.migration import MigrationContext

import cache.tables
import retrieval.tables
from app.database import open_database
from app.errors import HomeError


@pytest.mark.parametrize("tables", [cache.tables, retrieval.tables], ids=["cache", "retrieval"])
def test_the_migrations_make_the_tables_that_the_code_declares(
    tmp_path: Path, tables: object
) -> None:
    metadata = tables.metadata  # type: ignore[attr-defined]
    engine = open_database(tmp_path / "foreword.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_object": lambda _o, name, kind, *_: (
                    kind != "table" or name in metadata.tables
                )
            },
        )
        assert alembic.autogenerate.compare_metadata(context, metadata) == []
    engine.dispose()


def test_opening_again_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "foreword.db"
    engine = open_database(path)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.insert(retrieval.tables.collections).values(
                id="vs_1", tenant="t", name="n", embedder="e", dimension=3, created_at=0
            )
        )
    engine.dispose()
    engine = open_database(path)
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.select(retrieval.tables.collections.c.id)).all()
        assert connection.execute(sqlalchemy.text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(sqlalchemy.text("PRAGMA synchronous")).scalar() == 2
    engine.dispose()


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "foreword.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(HomeError, match="not a database"):
        open_database(path)
