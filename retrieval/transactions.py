"""Transactions, with the database's errors turned into ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from retrieval.errors import StorageAwayError, StorageError

# Of PostgreSQL: connection exceptions, a server that shuts down or starts, too many connections.
_AWAY_STATES = ("08", "57P", "53300")
# Of SQLite: somebody else writes, and for longer than anybody waits.
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A connection whose changes are committed together at the end, or not at all.

    Raises:
        StorageError: the database refused (full, locked); nothing was changed.
        StorageAwayError: its server can't be reached.
    """
    try:
        with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as exc:
        raise _refusal(exc) from exc


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A connection that sees the database as of one moment, however many statements are read.

    Raises:
        StorageError: the database refused.
        StorageAwayError: its server can't be reached.
    """
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection
    except SQLAlchemyError as exc:
        raise _refusal(exc) from exc


def _refusal(error: SQLAlchemyError) -> StorageError:
    cause = getattr(error, "orig", None) or error
    kind = StorageAwayError if _is_away(error) else StorageError
    return kind("The database", str(cause))


def _is_away(error: SQLAlchemyError) -> bool:
    """Whether there was nobody to refuse anything."""
    if isinstance(error, PoolTimeoutError):  # all connections wait for it
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    if getattr(error.orig, "sqlite_errorcode", None) in _LOCKED:
        return True
    # psycopg's errors have the attribute; it is None where the server said nothing.
    state = getattr(error.orig, "sqlstate", "")
    return state is None or state.startswith(_AWAY_STATES)
