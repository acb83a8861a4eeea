"""A real Redis that a test may stop, and a database with the tables."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from app.admission import shared
from app.admission.store import AdmissionStore
from app.database import open_database
from app.shared_views import views
from app.stack.ports import free_ports

SECRET = bytes(range(32))


@dataclass
class RedisServer:
    """A server on a port of its own."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None, "install redis-server"
        argv = [program, "--port", str(self.port), "--save", "", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*argv, "--dir", str(self.folder)], stdout=subprocess.DEVNULL
        )
        with redis.Redis(port=self.port) as client:
            deadline = time.monotonic() + 30
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert time.monotonic() < deadline, "Redis did not start"
                    time.sleep(0.02)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def redis_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """Gateways wait for it, and for each other, as long as a busy machine needs.

    Not for a quarter of a second, or five.
    """
    for module in (shared, views):
        monkeypatch.setattr(module, "_TIMEOUT_S", 30.0)
        monkeypatch.setattr(module, "_LIFETIME_S", 60)
    [port] = free_ports(1)
    server = RedisServer(tmp_path, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_database(tmp_path / "foreword.db")
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
def store(database: sa.Engine) -> AdmissionStore:
    return AdmissionStore(database, SECRET)
