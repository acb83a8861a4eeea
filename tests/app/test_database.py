"""The database comes up to the newest schema, and the migrations say what the tables say."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import alembic.autogenerate
import alembic.command
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import app.tables
import cache.tables
import retrieval.tables
from app.admission.audit import read_audit
from app.admission.keys import NewKey
from app.admission.store import OPERATOR, AdmissionStore
from app.admission.usage import DailyUse
from app.callers import Role, TenantLimits
from app.database import migrations, newest_revision, open_database, snapshot
from app.errors import DatabaseError, HomeError
from app.fleet.order_book import OrderBook, Standing
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import rescan, summaries
from retrieval import Collections, HashingEmbedder
from tests.postgres_server import PostgresServer

START = datetime(2026, 1, 1, tzinfo=UTC)
ALL_TABLES = [app.tables.metadata, cache.tables.metadata, retrieval.tables.metadata]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a new database may be made, in each of the ways that there are."""
    if request.param == "sqlite":
        return tmp_path / "deep" / "foreword.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@contextmanager
def opened(where: Path | str) -> Iterator[sa.Engine]:
    engine = open_database(where)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def untouched(where: Path | str) -> Iterator[sa.Engine]:
    """The same database, without any migration."""
    if isinstance(where, Path):
        where.parent.mkdir(parents=True, exist_ok=True)
        url = sa.URL.create("sqlite", database=str(where))
    else:
        url = sa.make_url(where).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def row(number: int, **changes: object) -> LedgerRow:
    fields: dict[str, object] = {
        "request_id": f"r{number:03}",
        "at": START + timedelta(minutes=7 * number),
        "tenant": f"t{number % 3}",
        "template": "docqa@1",
        "status": RequestStatus.OK,
        "prompt_tokens": 100 + number,
        "cached_tokens": None if number % 5 == 0 else 16 * (number % 4),
        "ttft_s": 0.1 * number,
    }
    return LedgerRow(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("metadata", ALL_TABLES, ids=["app", "cache", "retrieval"])
def test_the_migrations_make_the_tables_that_the_code_declares(
    where: Path | str, metadata: sa.MetaData
) -> None:
    with opened(where) as engine, engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_object": lambda _o, name, kind, *_: (
                    kind != "table" or name in metadata.tables
                )
            },
        )
        assert alembic.autogenerate.compare_metadata(context, metadata) == []


def test_opening_again_keeps_what_is_there(where: Path | str) -> None:
    with opened(where) as engine, engine.begin() as connection:
        insert_rows(connection, [row(1)])
    with opened(where) as engine, engine.connect() as connection:
        assert connection.scalars(sa.select(cache.tables.ledger.c.request_id)).all() == ["r001"]
        assert [summary.requests for summary in summaries(connection)] == [1]


def test_a_file_commits_to_the_disk_and_lets_readers_pass(tmp_path: Path) -> None:
    with opened(tmp_path / "foreword.db") as engine, engine.connect() as connection:
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(sa.text("PRAGMA synchronous")).scalar() == 2


def test_a_server_waits_for_locks_and_statements_only_so_long(postgres: PostgresServer) -> None:
    with opened(postgres.create_database()) as engine, engine.connect() as connection:
        for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
            assert connection.exec_driver_sql(f"SHOW {name}").scalar() not in (None, "0")


@pytest.mark.parametrize("rows", [0, 1, 250])
def test_rows_of_the_first_schema_are_counted_when_it_is_brought_up_to_date(
    where: Path | str, rows: int
) -> None:
    made = [row(number) for number in range(rows)]
    with untouched(where) as engine, engine.begin() as connection:
        alembic.command.upgrade(migrations(connection), "0001")
        _insert_as_before(connection, made)
    with opened(where) as engine, engine.connect() as connection:
        assert connection.scalar(_count(cache.tables.ledger)) == rows
        found = summaries(connection, by=("template", "tenant"))
        assert found == rescan(connection, by=("template", "tenant"))
        assert sum(summary.requests for summary in found) == rows


def _insert_as_before(connection: sa.Connection, rows: list[LedgerRow]) -> None:
    table = sa.Table("ledger", sa.MetaData(), autoload_with=connection)
    names = set(table.c.keys())
    for made in rows:
        values = {
            column.name: getattr(made, column.name)
            for column in cache.tables.ledger.c
            if column.name in names
        }
        if connection.dialect.name == "sqlite":
            values["at"] = made.at.replace(tzinfo=None)
        connection.execute(sa.insert(table).values(values))


def _count(table: sa.Table) -> sa.Select[int]:
    return sa.select(sa.func.count()).select_from(table)


def test_going_back_and_forth_keeps_the_rows_and_counts_them_again(where: Path | str) -> None:
    with opened(where) as engine:
        with engine.begin() as connection:
            insert_rows(connection, [row(number) for number in range(20)])
            before = summaries(connection, by=("tenant",))
        with engine.begin() as connection:
            alembic.command.downgrade(migrations(connection), "0001")
            assert "ledger_days" not in sa.inspect(connection).get_table_names()
    with opened(where) as engine, engine.connect() as connection:
        assert summaries(connection, by=("tenant",)) == before


def test_going_back_to_nothing_leaves_nothing(where: Path | str) -> None:
    with opened(where) as engine, engine.begin() as connection:
        alembic.command.downgrade(migrations(connection), "base")
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]


def test_a_migration_that_fails_leaves_nothing_half_done(where: Path | str) -> None:
    with untouched(where) as engine, engine.begin() as connection:
        alembic.command.upgrade(migrations(connection), "0001")
        connection.exec_driver_sql("CREATE TABLE ledger_days (in_the_way INTEGER)")
    with pytest.raises((DatabaseError, HomeError), match="ledger_days"):
        open_database(where)
    with untouched(where) as engine, engine.begin() as connection:
        columns = {column["name"] for column in sa.inspect(connection).get_columns("ledger")}
        assert "verdict" in columns
        assert "lost" not in columns
        connection.exec_driver_sql("DROP TABLE ledger_days")
    with opened(where) as engine, engine.connect() as connection:
        assert summaries(connection) == []


def test_many_that_open_a_new_database_at_once_all_get_it(where: Path | str) -> None:
    failures: list[Exception] = []

    def work() -> None:
        try:
            with opened(where) as engine, engine.connect() as connection:
                assert summaries(connection) == []
        except (sa.exc.SQLAlchemyError, DatabaseError, HomeError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_snapshot_sees_one_moment(where: Path | str) -> None:
    with opened(where) as engine:
        with engine.begin() as connection:
            insert_rows(connection, [row(1)])
        with snapshot(engine) as reader:
            before = summaries(reader)
            with engine.begin() as writer:
                insert_rows(writer, [row(2)])
            assert summaries(reader) == before
        with snapshot(engine) as reader:
            assert [summary.requests for summary in summaries(reader)] == [2]


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "foreword.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(HomeError, match="not a database"):
        open_database(path)


def test_a_url_may_name_a_file(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path / 'foreword.db'}"):
        assert (tmp_path / "foreword.db").is_file()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://someone:s3cret@127.0.0.1:9/foreword", "refused"),
        ("postgresql://someone:s3cret@/foreword?host=/nowhere", "can't be used"),
        ("mysql://someone:s3cret@localhost/foreword", "only postgresql"),
        ("s3cret", "not a URL"),
    ],
)
def test_a_server_that_cant_be_used_is_told_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(DatabaseError, match=problem) as told:
        open_database(url)
    assert "s3cret" not in str(told.value)


def test_what_was_there_before_keys_stays_and_keys_limits_orders_and_audit_work_beside_it(
    where: Path | str, tmp_path: Path
) -> None:
    """From revision 0005, with rows in the tables that requests, files and deletions write."""
    with opened(where) as engine:
        with engine.begin() as connection:
            insert_rows(connection, [row(number) for number in range(40)])
            connection.execute(sa.insert(app.tables.tenant_epochs).values(tenant="t1", epoch=3))
            about = {"salt": "s", "tenant": "t1", "collection_id": None, "requested_at": START}
            connection.execute(sa.insert(app.tables.kv_deletions).values(**about))
        _fill_collections(engine, tmp_path / "files")
        with engine.begin() as connection:
            alembic.command.downgrade(migrations(connection), "0005")
    with untouched(where) as engine:
        before = _all_rows(engine)
    assert not {"api_keys", "audit_log", "replica_orders"} & before.keys()
    assert all(before[name] for name in ("ledger", "ledger_hours", "files", "kv_deletions"))
    with opened(where) as engine:
        after = _all_rows(engine)
        # Revision 0012 adds a column, `notes`.
        after["ledger"] = [each.removesuffix(" | None") for each in after["ledger"]]
        assert {name: after[name] for name in before if name != "alembic_version"} == {
            name: rows for name, rows in before.items() if name != "alembic_version"
        }
        _use_keys_limits_and_orders(engine)


def _fill_collections(engine: sa.Engine, folder: Path) -> None:
    embedder = HashingEmbedder()
    with closing(Collections(engine, folder, embedder, embedder.count_tokens)) as collections:
        made = collections.create("vault", tenant="t1")
        file = collections.save_file("x.txt", b"The vault opens at 8.", "assistants", tenant="t1")
        collections.add_file(made.id, file.id, tenant="t1")
        assert collections.search(made.id, "vault", tenant="t1")


def _all_rows(engine: sa.Engine) -> dict[str, list[str]]:
    """The rows of every table, in no order."""
    found = {}
    with engine.connect() as connection:
        for name in sa.inspect(connection).get_table_names():
            rows = connection.exec_driver_sql(f'SELECT * FROM "{name}"').all()
            found[name] = sorted(" | ".join(map(_plain, each)) for each in rows)
    return found


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _use_keys_limits_and_orders(engine: sa.Engine) -> None:
    store, limits = AdmissionStore(engine, bytes(32)), TenantLimits(tokens_per_day=2**40, weight=2)
    made = store.create(NewKey(tenant="t1", role=Role.ADMIN, expires_s=60), by=OPERATOR)
    again = store.rotate(made.record.id, grace_s=5, expires_s=None, by=OPERATOR)
    store.set_limits("t1", limits, by=OPERATOR)
    OrderBook(engine).give(
        "http://e:1", "e", Standing.CORDONED, by=OPERATOR, action="replica.cordon", adds=False
    )
    held = store.load()
    assert {key.id for key in held.keys} == {made.record.id, again.record.id}
    assert (held.limits, held.revision) == ({"t1": limits}, 3)
    assert OrderBook(engine).load()["http://e:1"].standing is Standing.CORDONED
    use = DailyUse(engine)
    use.add("t1", 2**40)
    use.sync()
    assert use.of("t1") == 2**40
    with engine.connect() as connection:
        actions = [entry.action for entry in read_audit(connection, limit=9)]
    assert actions == ["replica.cordon", "tenant.limits", "key.rotate", "key.create"]


def test_the_newest_schema_is_alembics_head(tmp_path: Path) -> None:
    with opened(tmp_path / "foreword.db") as engine, engine.begin() as connection:
        scripts = ScriptDirectory.from_config(migrations(connection))
        assert newest_revision() == scripts.get_current_head()


def test_a_start_that_finds_the_newest_schema_does_without_alembic(where: Path | str) -> None:
    """It is the same as with it, and takes 10 MB less."""
    with opened(where) as engine, engine.begin() as connection:
        insert_rows(connection, [row(1)])
    again = (
        "import pathlib, sys; from app.database import open_database; where = sys.argv[1]; "
        "engine = open_database(where if '://' in where else pathlib.Path(where)); "
        "print(engine.connect().exec_driver_sql('SELECT count(*) FROM ledger').scalar()); "
        "print('alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", again, str(where)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]
