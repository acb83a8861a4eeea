"""Transactions, with the database's errors turned into ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from retrieval.errors import StorageError


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A connection whose changes are committed together at the end, or not at all.

    Raises:
        StorageError: the database refused (full, locked, gone); nothing was changed.
    """
    try:
        with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as exc:
        cause = getattr(exc, "orig", None) or exc
        raise StorageError("The database", str(cause)) from exc


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A connection that sees the database as of one moment, however many statements are read.

    Raises:
        StorageError: the database refused.
    """
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection
    except SQLAlchemyError as exc:
        cause = getattr(exc, "orig", None) or exc
        raise StorageError("The database", str(cause)) from exc
