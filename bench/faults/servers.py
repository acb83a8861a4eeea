"""A Redis and a PostgreSQL of the suite's own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.child_process import free_port
from bench.errors import FaultSuiteError
from bench.faults.processes import Child

_START_S = 30.0


class Redis:
    """One that keeps nothing on a disk."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.child = Child(
            [*command, "--bind", "127.0.0.1"], folder, "limits-redis", env=os.environ
        )

    def start(self) -> None:
        self.child.start()
        deadline = time.monotonic() + _START_S
        while not _listens(self.port):
            if time.monotonic() > deadline:
                raise FaultSuiteError("Redis", f"did not start; see {self.child.log}")
            time.sleep(0.02)


class Postgres:
    """One server with one database, reached by its socket alone."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._user = _somebody_else()
        self.url = f"postgresql://foreword@/postgres?host={folder}"
        options = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
        pairs = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(folder / "data"), *pairs]
        self.child = Child(command, folder, "postgres", env=os.environ, user=self._user)

    def initialise(self) -> None:
        initdb, data = str(self._programs / "initdb"), str(self._folder / "data")
        subprocess.run(
            [
                initdb,
                "-D",
                data,
                "-U",
                "foreword",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
        )

    def start(self) -> None:
        self.child.start()
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise FaultSuiteError("PostgreSQL", str(error)) from error
                time.sleep(0.05)


@contextmanager
def running_redis(folder: Path) -> Iterator[Redis | None]:
    """A Redis; None where it isn't installed."""
    if shutil.which("redis-server") is None:
        yield None
        return
    redis = Redis(folder)
    redis.start()
    try:
        yield redis
    finally:
        redis.child.stop()


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A PostgreSQL in a folder of its own.

    Raises:
        FaultSuiteError: it isn't installed, or does not start.
    """
    programs = _programs()
    if programs is None:
        raise FaultSuiteError("PostgreSQL", "is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="foreword-pg-"))
    try:
        if user := _somebody_else():
            shutil.chown(folder, user)
        server = Postgres(programs, folder)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            # As a crash: what is thrown away needs no orderly end.
            server.child.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _programs() -> Path | None:
    """The folder with `initdb` and `postgres`; Debian keeps them out of the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def _somebody_else() -> str | None:
    """PostgreSQL refuses to run as root: whom to run it as then."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
