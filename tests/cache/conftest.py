"""What the tests of `cache` share: real SQLite files and rows to put into them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from cache.rows import LedgerRow, RequestStatus
from cache.tables import metadata

EngineMaker = Callable[..., sa.Engine]


@pytest.fixture
def captured() -> Path:
    """Pages and responses as SGLang 0.5.23 and LMCache 0.5.6 really sent them."""
    return Path(__file__).parent / "captured"


@pytest.fixture(scope="session")
def open_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineMaker]:
    """Opens a SQLite file (a new one by default) as the gateway does: WAL, short lock waits."""
    engines: list[sa.Engine] = []

    def open_one(path: Path | None = None, *, create: bool = True) -> sa.Engine:
        file = path or tmp_path_factory.mktemp("ledger") / "ledger.db"
        engine = sa.create_engine(f"sqlite:///{file}", connect_args={"timeout": 0.05})
        engines.append(engine)
        if create:
            with engine.begin() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                metadata.create_all(connection)
        return engine

    yield open_one
    for engine in engines:
        engine.dispose()


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
