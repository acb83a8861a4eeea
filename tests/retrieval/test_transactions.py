"""What the database's errors become."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

from retrieval import StorageAwayError, StorageError
from retrieval.transactions import snapshot, transaction
from tests.postgres_server import running_postgres


@pytest.mark.slow
def test_a_server_that_is_away_is_told_apart_and_its_address_is_not_told() -> None:
    with running_postgres() as server:
        engine = server.create_engine()
        with transaction(engine) as connection:
            connection.exec_driver_sql("CREATE TABLE t (x int NOT NULL)")
        with pytest.raises(StorageError) as refused, transaction(engine) as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (NULL)")
        assert not isinstance(refused.value, StorageAwayError)
        server.stop()
        for _ in range(2):  # the pooled connection, then a new one
            with pytest.raises(StorageAwayError) as away, snapshot(engine) as connection:
                connection.exec_driver_sql("SELECT 1")
            assert "/" not in str(away.value)
        server.start()
        with snapshot(engine) as connection:
            connection.exec_driver_sql("SELECT 1")
        engine.dispose()


def test_a_statement_that_is_wrong_is_no_server_that_is_away() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(StorageError) as refused, transaction(engine) as connection:
        connection.exec_driver_sql("SELECT nothing FROM nowhere")
    assert not isinstance(refused.value, StorageAwayError)
    engine.dispose()


def test_a_file_that_is_locked_is_away_for_the_moment(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(
        f"sqlite:///{tmp_path / 'one.db'}", connect_args={"timeout": 0}
    )
    with closing(sqlite3.connect(tmp_path / "one.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageAwayError) as away, transaction(engine) as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert int(away.value.headers["retry-after"]) >= 1
    engine.dispose()
