"""What the tests of `cache` share: real databases of both kinds, and rows to put into them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from cache.rows import LedgerRow, RequestStatus
from cache.tables import metadata
from tests.postgres_server import PostgresServer

EngineMaker = Callable[..., sa.Engine]

_LOCK_WAIT_S = 0.5


@pytest.fixture
def captured() -> Path:
    """Pages and responses as SGLang 0.5.23 and LMCache 0.5.6 really sent them."""
    return Path(__file__).parent / "captured"


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
def open_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineMaker]:
    """Opens a database (a new one by default), with short lock waits: SQLite, then PostgreSQL.

    Given an engine, it opens another one on the same database.
    """
    engines: list[sa.Engine] = []

    def new_url() -> str:
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}"
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create_database()

    def open_one(like: sa.Engine | None = None, *, create: bool = True) -> sa.Engine:
        engine = connect(new_url() if like is None else like.url)
        engines.append(engine)
        if create:
            create_tables(engine)
        return engine

    yield open_one
    for engine in engines:
        engine.dispose()


@pytest.fixture(scope="session")
def open_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineMaker]:
    """Opens a SQLite file, for what only concerns files."""
    engines: list[sa.Engine] = []

    def open_one(path: Path | None = None) -> sa.Engine:
        file = path or tmp_path_factory.mktemp("ledger") / "ledger.db"
        engines.append(connect(f"sqlite:///{file}"))
        create_tables(engines[-1])
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.dispose()


def connect(url: str | sa.URL) -> sa.Engine:
    url = sa.make_url(url)
    if url.get_backend_name() == "sqlite":
        return sa.create_engine(url, connect_args={"timeout": _LOCK_WAIT_S})
    lock_timeout = f"-c lock_timeout={int(1000 * _LOCK_WAIT_S)}ms -c timezone=UTC"
    return sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        connect_args={"options": lock_timeout},
    )


def create_tables(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        metadata.create_all(connection)


@pytest.fixture
def database(open_database: EngineMaker) -> sa.Engine:
    return open_database()


@pytest.fixture
def make_row() -> Callable[..., LedgerRow]:
    """Rows that differ in what the test names; ids count up within a test."""
    made = 0
    plain = LedgerRow(
        request_id="",
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        tenant="local",
        template="docqa@1",
        status=RequestStatus.OK,
    )

    def make(**changes: object) -> LedgerRow:
        nonlocal made
        made += 1
        return replace(plain, **{"request_id": f"r{made}", **changes})

    return make
