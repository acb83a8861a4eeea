"""`python -m bench.micro.ledger_report`: writing the ledger, and reading reports over many rows.

One day of made-up traffic is written by the real `Ledger`, which gives the write throughput; the
database itself copies that day to thirty. Then each way of reading runs in a process of its own,
whose time and largest memory are measured. All of it on SQLite.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import sqlalchemy as sa

from cache.ledger import Ledger
from cache.rows import LedgerRow, RequestStatus
from cache.summary import Step, moments, rescan, summaries
from cache.tables import ledger, ledger_days, ledger_hours, metadata

DAYS = 30
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_SEED = 7
_TEMPLATES = [f"{name}@{version}" for name in ("chat", "docqa", "agent") for version in range(1, 5)]
_TENANTS = 40
_REPLICAS = 2
_MEASURED = 20_000


def made_up_day(rows: int) -> Iterator[LedgerRow]:
    """One day's requests: few tenants and templates are most of the traffic, 2 % fail."""
    source = random.Random(_SEED)
    tenants = [f"tenant-{number}" for number in range(_TENANTS)]
    weights = [1 / (1 + number) for number in range(_TENANTS)]
    for number in range(rows):
        tenant = source.choices(tenants, weights)[0]
        template = source.choice(_TEMPLATES[: 3 + 3 * (number % 4)])
        prompt = source.randrange(500, 8_000)
        ideal = prompt * source.randrange(50, 95) // 100 // 16 * 16
        cached = ideal if source.random() < 0.7 else ideal // 2 // 16 * 16
        lost = {source.choice(["evicted", "changed", "moved"]): ideal - cached}
        yield LedgerRow(
            request_id=f"d00-{number:08}",
            at=FIRST_DAY + timedelta(days=number / rows),
            tenant=tenant,
            template=template,
            status=RequestStatus.OK if source.random() < 0.98 else RequestStatus.ERROR,
            collection=None if template.startswith("chat") else f"{tenant}-{number % 2}",
            mode="cag" if number % 3 else "rag",
            replica=f"engine-{zlib.crc32(tenant.encode()) % _REPLICAS}",
            prompt_tokens=prompt,
            ideal_tokens=ideal,
            predicted_tokens=cached,
            cached_tokens=None if source.random() < 0.01 else cached,
            cached_gpu=cached,
            cached_storage=0,
            cached_ram=0,
            completion_tokens=source.randrange(10, 400),
            new_tokens=prompt - ideal,
            ttft_s=source.lognormvariate(-2, 0.7),
            e2e_s=source.lognormvariate(1, 0.5),
            verdict="hit" if cached == ideal else next(iter(lost)),
            lost={} if cached == ideal else lost,
            scaffold="0123456789abcdef0123456789abcdef",
            prompt_digest=f"{number:032x}",
        )


def connect(file: Path) -> sa.Engine:
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        metadata.create_all(connection)
    return engine


def write_day(engine: sa.Engine, rows: int) -> tuple[float, float]:
    """Write one day through the ledger; rows per second and per second of CPU of its first part.

    The rest is only there to be read: larger batches write it sooner.
    """
    made = list(made_up_day(rows))
    sa.event.listen(engine, "connect", _durable)
    measured, rest = made[:_MEASURED], made[_MEASURED:]
    wall, cpu = time.perf_counter(), time.process_time()
    _write(engine, measured, max_batch=500)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    _write(engine, rest, max_batch=5_000)
    return len(measured) / wall, len(measured) / cpu


def _write(engine: sa.Engine, rows: list[LedgerRow], *, max_batch: int) -> None:
    writer = Ledger(engine, capacity=len(rows) + max_batch, max_batch=max_batch, flush_s=0.5)
    for row in rows:
        writer.record(row)
    assert writer.flush(timeout_s=3600)
    writer.close()
    assert writer.status.written == len(rows)


def copy_day(engine: sa.Engine, day: int) -> None:
    """The first day's rows and roll-ups once more, `day` days later."""
    date = (FIRST_DAY + timedelta(days=day)).date().isoformat()
    with engine.begin() as connection:
        _copy(
            connection,
            ledger,
            request_id=f"'d{day:02}' || substr(request_id, 4)",
            at=f"'{date}' || substr(at, 11)",
            where=f"request_id LIKE 'd00-%' AND at < '{FIRST_DAY.date() + timedelta(days=1)}'",
        )
        for table in (ledger_hours, ledger_days):
            end = int(FIRST_DAY.timestamp()) + 86_400
            _copy(connection, table, start=f"start + {86_400 * day}", where=f"start < {end}")


def _copy(connection: sa.Connection, table: sa.Table, where: str, **changed: str) -> None:
    names = [column.name for column in table.c]
    values = ", ".join(changed.get(name, name) for name in names)
    statement = f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {table.name}"
    connection.exec_driver_sql(f"{statement} WHERE {where}")


def _durable(connection: sa.PoolProxiedConnection, _record: object) -> None:
    connection.cursor().execute("PRAGMA synchronous=FULL")


def read_rollups(connection: sa.Connection) -> object:
    """What a report's page takes: totals by each label, and two series over time."""
    found: list[object] = [summaries(connection, by=())]
    for label in ("template", "tenant", "collection", "mode", "replica"):
        found.append(summaries(connection, by=(label,)))
    found.append(moments(connection, by=("template",), step=Step.DAY))
    since = FIRST_DAY + timedelta(days=DAYS - 7)
    found.append(moments(connection, since=since, by=("template",), step=Step.HOUR))
    return found


def read_total(connection: sa.Connection) -> object:
    """The table that `foreword report` prints: a total, and one line a template."""
    return summaries(connection, by=()), summaries(connection, by=("template",))


def read_ragged(connection: sa.Connection) -> object:
    """The same with a window that begins and ends within an hour."""
    since, until = (FIRST_DAY + timedelta(days=days) for days in (0.51, DAYS - 0.49))
    return summaries(connection, since=since, until=until, by=("template",))


def read_rows(connection: sa.Connection) -> object:
    """One line a template, from rows alone."""
    return rescan(connection, by=("template",))


WAYS: dict[str, Callable[[sa.Connection], object]] = {
    "total and by template": read_total,
    "a whole page": read_rollups,
    "by template, ragged window": read_ragged,
    "rescan of all rows": read_rows,
}


def measure(file: Path, way: str) -> dict[str, float]:
    """Seconds and largest resident memory (MB) of one way of reading, in a new process."""
    command = [sys.executable, "-m", "bench.micro.ledger_report", "--read", way, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def read_once(file: Path, way: str) -> dict[str, float]:
    with connect(file).connect() as connection:
        wall, cpu = time.perf_counter(), time.process_time()
        WAYS[way](connection)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"seconds": round(wall, 2), "cpu_s": round(cpu, 2), "megabytes": _peak_megabytes()}


def _peak_megabytes() -> int:
    """Largest resident memory; unlike `getrusage`, without what the parent had before the start."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) // 1024


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="rows over thirty days")
@click.option("--read", hidden=True, help="measure one way of reading")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def main(rows: int, read: str | None, file: Path | None) -> None:
    """Make FILE (or take it, if it is there) and print what writing and reading cost."""
    if read is not None and file is not None:
        click.echo(json.dumps(read_once(file, read)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = file or Path(folder) / "ledger.db"
        if not path.exists():
            engine = connect(path)
            by_wall, by_cpu = write_day(engine, rows // DAYS)
            click.echo(f"written: {by_wall:,.0f} rows/s, {1e6 / by_cpu:,.0f} µs of CPU a row")
            for day in range(1, DAYS):
                copy_day(engine, day)
            engine.dispose()
        with connect(path).connect() as connection:
            for table in (ledger, ledger_hours, ledger_days):
                count = connection.scalar(sa.select(sa.func.count()).select_from(table))
                click.echo(f"{table.name}: {count:,}")
        click.echo(f"file: {path.stat().st_size / 2**20:,.0f} MB")
        for way in WAYS:
            found = measure(path, way)
            click.echo(
                f"{way}: {found['seconds']} s ({found['cpu_s']} s of CPU), {found['megabytes']} MB"
            )


if __name__ == "__main__":
    main()
