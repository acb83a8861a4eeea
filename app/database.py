"""The gateway's database: SQLite in the home folder, brought to the newest schema when opened."""

from pathlib import Path

import alembic.command
import alembic.config
import sqlalchemy

from app.errors import HomeError

_BUSY_TIMEOUT_MS = 10_000


def open_database(path: Path) -> sqlalchemy.Engine:
    """A pooled engine on the database, its schema up to date.

    Write-ahead logging lets readers and the one writer at a time pass each other; commits reach the
    disk before they are acknowledged.

    Raises:
        HomeError: the file can't be opened or made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    sqlalchemy.event.listen(engine, "connect", _set_pragmas)
    try:
        with engine.begin() as connection:
            _migrate(connection)
    except sqlalchemy.exc.DBAPIError as error:
        engine.dispose()
        raise HomeError(path, str(error.orig)) from error
    return engine


def _set_pragmas(connection: sqlalchemy.PoolProxiedConnection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
    cursor.close()


def _migrate(connection: sqlalchemy.Connection) -> None:
    config = alembic.config.Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    alembic.command.upgrade(config, "head")
