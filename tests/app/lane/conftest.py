"""A gateway whose lane can be looked at, and a client that says how a request is to go."""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvicorn
from fastapi import FastAPI

from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from app.lane.lane import Lane
from app.log import LineWriter
from app.main import create_app
from app.services import Services
from app.settings import Settings
from app.wire import GuardedProtocol, server_config
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from cache.ledger_lookup import find_row
from tests.gateways import gateway_settings, wait_until_ready

_PATIENCE_S = 60.0
_START_S = 90.0
RULES = "Be brief, and name your sources."


@dataclass
class Answer:
    """What a client heard, and what the gateway wrote down of it."""

    status: int
    head: list[tuple[str, str]]
    body: bytes
    straight: bool

    @property
    def request_id(self) -> str:
        return dict(self.head)["x-request-id"]

    def names(self) -> list[str]:
        return [name for name, _ in self.head]


@dataclass
class Gateway:
    """One in a thread of this process.

    `odd` makes heads that were never met, which have to go the whole way.
    """

    url: str
    app: FastAPI
    server: uvicorn.Server
    log: Path
    key: str | None = None
    odd: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def lane(self) -> Lane:
        lane = self.app.state.lane
        assert isinstance(lane, Lane)
        return lane

    @property
    def services(self) -> Services:
        services = self.app.state.services
        assert isinstance(services, Services)
        return services

    def protocols(self) -> list[GuardedProtocol]:
        """The connections that are open."""
        return [p for p in self.server.server_state.connections if isinstance(p, GuardedProtocol)]

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection

    def request(self, body: dict[str, Any], *, whole_way: bool = False) -> bytes:
        """A request, whose head is one that was never met where it has to go the whole way."""
        raw = orjson.dumps(body)
        lines = [
            b"POST /v1/chat/completions HTTP/1.1",
            b"Host: 127.0.0.1",
            b"Content-Length: %d" % len(raw),
            b"Content-Type: application/json",
            b"x-client-request-id: mine",
        ]
        if self.key is not None:
            lines.append(b"Authorization: Bearer " + self.key.encode())
        if whole_way:
            lines.append(b"x-odd: %d" % next(self.odd))
        return b"\r\n".join(lines) + b"\r\n\r\n" + raw

    def ask(self, body: dict[str, Any], *, whole_way: bool = False) -> Answer:
        """An answer to a request on a connection of its own."""
        with self.connected() as connection:
            return self.ask_on(connection, body, whole_way=whole_way)

    def ask_on(
        self, connection: socket.socket, body: dict[str, Any], *, whole_way: bool = False
    ) -> Answer:
        taken = self.lane.taken
        connection.sendall(self.request(body, whole_way=whole_way))
        status, head, told = heard(connection)
        return Answer(status, head, told, straight=self.lane.taken > taken)

    def row(self, request_id: str) -> dict[str, Any]:
        """What the ledger has of a request."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self.services.ledger.flush()
            with self.services.database.connect() as database:
                found = find_row(database, request_id)
            if found is not None:
                return asdict(found)
            assert time.monotonic() < deadline, "the request never got into the ledger"
            time.sleep(0.02)

    def line(self, request_id: str) -> dict[str, Any]:
        """What the log has of a request."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            for line in self.log.read_bytes().splitlines():
                told: dict[str, Any] = json.loads(line)
                if told.get("request_id") == request_id and told["event"] == "request":
                    return told
            assert time.monotonic() < deadline, "the request never got into the log"
            time.sleep(0.02)

    def made_key(self, tenant: str, role: Role = Role.USER) -> tuple[str, str]:
        """A key that holds already, and its id."""
        keys = self.services.keys
        made = keys.store.create(NewKey(tenant=tenant, role=role), by=OPERATOR)
        keys.refresh()
        return made.key, made.record.id


def heard(connection: socket.socket) -> tuple[int, list[tuple[str, str]], bytes]:
    """The status, the head and the body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    front, _, data = data.partition(b"\r\n\r\n")
    first, *lines = front.decode().split("\r\n")
    head = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    names = dict(head)
    if "content-length" in names:
        while len(data) < int(names["content-length"]):
            data += _more(connection)
        return int(first.split()[1]), head, data
    while not data.endswith(b"0\r\n\r\n"):
        data += _more(connection)
    return int(first.split()[1]), head, unchunked(data)


def unchunked(data: bytes) -> bytes:
    body = b""
    while found := re.match(rb"([0-9a-f]+)\r\n", data):
        size, start = int(found[1], 16), found.end()
        body += data[start : start + size]
        data = data[start + size + 2 :]
    return body


def _more(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    assert part, "the connection was closed"
    return part


@contextmanager
def running(settings: Settings, log: Path) -> Iterator[Gateway]:
    """A gateway that writes its log into a file."""
    here = settings.gateway.model_copy(update={"host": "127.0.0.1", "port": 0})
    logged = settings.log.model_copy(update={"requests": True})
    settings = settings.model_copy(update={"gateway": here, "log": logged})
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    lines = LineWriter(descriptor)
    app = create_app(settings, lines=lines)
    server = uvicorn.Server(server_config(app, settings, shutdown_s=20))
    thread = threading.Thread(target=server.run, name="gateway")
    thread.start()
    try:
        deadline = time.monotonic() + _START_S
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        made = Gateway(f"http://127.0.0.1:{port}", app, server, log)
        wait_until_ready(made.url)
        yield made
    finally:
        server.should_exit = True
        thread.join(_START_S)
        assert not thread.is_alive()
        lines.close()
        os.close(descriptor)


@pytest.fixture(scope="module")
def engine(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=20))
    with SimulatorThread(config) as started:
        yield started


@pytest.fixture(scope="module")
def gateway(engine: SimulatorThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("home")
    with running(gateway_settings(home / "data", engine.url), home / "log") as started:
        yield started


def question(text: str, *turns: str, **more: Any) -> dict[str, Any]:
    """A usual request, whose rules all tests share; `turns` were said before its text."""
    said = [
        {"role": "assistant" if number % 2 else "user", "content": each}
        for number, each in enumerate((*turns, text))
    ]
    messages = [{"role": "system", "content": RULES}, *said]
    return {"model": "default", "messages": messages, "max_tokens": 8, "temperature": 0.0, **more}
