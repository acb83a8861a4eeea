"""The gateway's database, brought to the newest schema when opened: a SQLite file or PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy

from app.errors import DatabaseError, HomeError
from cache.backfill import count_rows_once
from cache.labels import LabelCaps

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATIONS = Path(__file__).parent / "migrations"
_BUSY_TIMEOUT_MS = 10_000
# Any number but the ledger's own: "fwmigr" in ASCII.
_MIGRATION_LOCK = 0x66776D696772
_NO_ROLLUPS = "0001"
# A lost server is noticed within half a minute; a peer that hangs in a transaction is thrown out
# before the ledger's queue is full. Reports over raw rows may take their time.
_POSTGRES_SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "120s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
}
_POSTGRES_OPTIONS: dict[str, Any] = {
    "pool_pre_ping": True,
    "pool_size": 5,
    "max_overflow": 10,
    "pool_timeout": 10,
    "pool_recycle": 1800,
    "connect_args": {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
        "application_name": "foreword",
        "options": " ".join(f"-c {name}={value}" for name, value in _POSTGRES_SETTINGS.items()),
    },
}


def open_database(where: Path | str, *, caps: LabelCaps | None = None) -> sqlalchemy.Engine:
    """A pooled engine on the database, its schema up to date.

    SQLite uses write-ahead logging: readers and the one writer at a time pass each other. Commits
    reach the disk before they are acknowledged, on SQLite always, on PostgreSQL unless its server
    was told otherwise (`synchronous_commit`, `fsync`). After a restart of the server, or when a
    connection was lost, the pool connects anew.

    Args:
        where: path of a SQLite file, or a URL: `postgresql://user:password@host/name`.
        caps: for the roll-ups, where rows from before there were any are to be counted.

    Raises:
        HomeError: the file can't be opened or made.
        DatabaseError: the URL isn't one, or its server can't be reached or refuses.
    """
    if isinstance(where, Path):
        return _open_file(where, caps)
    try:
        url = sqlalchemy.make_url(where)
    except (sqlalchemy.exc.ArgumentError, ValueError) as error:
        raise DatabaseError("in FOREWORD_DATABASE__URL", "it is not a URL") from error
    if url.get_backend_name() == "sqlite":
        return _open_file(Path(url.database or "foreword.db"), caps)
    return _open_server(url, caps)


def migrations(connection: sqlalchemy.Connection) -> "Config":
    """What Alembic's commands want to know, so that they work on this connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    return config


@contextmanager
def snapshot(engine: sqlalchemy.Engine) -> Iterator[sqlalchemy.Connection]:
    """A connection that sees the database as of one moment, however many statements are read."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")
        yield connection


def _open_file(path: Path, caps: LabelCaps | None) -> sqlalchemy.Engine:
    try:
        # What is in it is nobody else's.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(path.parent, error.strerror or str(error)) from error
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    sqlalchemy.event.listen(engine, "connect", _set_pragmas)
    try:
        _bring_up_to_date(engine, caps)
    except sqlalchemy.exc.DBAPIError as error:
        raise HomeError(path, str(error.orig)) from error
    return engine


def _open_server(url: sqlalchemy.URL, caps: LabelCaps | None) -> sqlalchemy.Engine:
    told = url.render_as_string(hide_password=True)
    if url.get_backend_name() != "postgresql":
        raise DatabaseError(told, "only postgresql:// and sqlite:// are supported")
    engine = sqlalchemy.create_engine(url.set(drivername="postgresql+psycopg"), **_POSTGRES_OPTIONS)
    try:
        _bring_up_to_date(engine, caps)
    except sqlalchemy.exc.DBAPIError as error:
        problem = str(error.orig).strip().partition("\n")[0]
        raise DatabaseError(told, problem) from error
    return engine


def _set_pragmas(connection: sqlalchemy.PoolProxiedConnection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
    cursor.close()


def _bring_up_to_date(engine: sqlalchemy.Engine, caps: LabelCaps | None) -> None:
    """All migrations in one transaction, by one process at a time; none of them stays half done."""
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                lock = sqlalchemy.func.pg_advisory_xact_lock(_MIGRATION_LOCK)
                connection.execute(sqlalchemy.select(lock))
            else:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            before = _revision(connection)
            if before == newest_revision():
                return
            from alembic import command  # it takes 10 MB, and most starts find nothing to do

            command.upgrade(migrations(connection), "head")
            if before == _NO_ROLLUPS:
                count_rows_once(connection, caps or LabelCaps())
    except sqlalchemy.exc.DBAPIError:
        engine.dispose()
        raise


def newest_revision() -> str:
    """The schema that this version uses: migrations' files are named by their revisions."""
    return max(path.name.partition("_")[0] for path in _MIGRATIONS.glob("versions/[0-9]*_*.py"))


def _revision(connection: sqlalchemy.Connection) -> str | None:
    """The schema that the database has; None where there is none."""
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalar()
