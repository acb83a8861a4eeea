"""A gateway before one simulated engine, whose traffic is mirrored to another."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import Settings, ShadowSettings
from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

JSONObject = dict[str, Any]
TEXT = "When does the ferry to the island leave in the morning, and what is a ticket? " * 6


def until(holds: Callable[[], object], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def simulator(folder: Path, *, speedup: float = 50) -> SimulatorThread:
    return SimulatorThread(
        SimulatorConfig(
            model_path=folder, clock=ClockConfig(speedup=speedup), events=EventsConfig(topic="kv")
        )
    )


def order(engine: SimulatorThread, kind: str, **fault: object) -> None:
    body = {"kind": kind, "times": None, **fault}
    url = f"{engine.url}/simulator/faults"
    httpx.post(url, json=body, trust_env=False).raise_for_status()


def chats(engine: SimulatorThread) -> int:
    """Requests that an engine has ended."""
    page = httpx.get(f"{engine.url}/metrics", trust_env=False).text
    lines = [line for line in page.splitlines() if line.startswith("sglang:num_requests_total")]
    return round(sum(float(line.rpartition(" ")[2]) for line in lines))


@dataclass
class Site:
    """A gateway that mirrors."""

    url: str

    def post(self, *texts: str, **fields: Any) -> httpx.Response:
        """Ask; of several texts the second, fourth … are earlier answers."""
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        headers = fields.pop("headers", None)
        body = {
            "model": "default", "messages": messages, "max_tokens": 6, "temperature": 0,
            "foreword": {},
        } | fields  # fmt: skip
        return httpx.post(
            f"{self.url}/v1/chat/completions",
            json=body,
            headers=headers,
            trust_env=False,
            timeout=60,
        )

    def ask(self, *texts: str, **fields: Any) -> JSONObject:
        answer = self.post(*texts, **fields)
        assert answer.status_code == 200, answer.text
        made: JSONObject = answer.json()
        return made

    def converse(self, opening: str, turns: int = 3) -> list[JSONObject]:
        said, blocks = [opening], []
        for turn in range(turns):
            answer = self.ask(*said)
            blocks.append(answer["foreword"])
            said += [answer["choices"][0]["message"]["content"], f"And then, {turn}? {TEXT}"]
        return blocks

    def shadow(self, **query: str) -> JSONObject:
        told = httpx.get(f"{self.url}/foreword/shadow", params=query, trust_env=False)
        assert told.status_code == 200, told.text
        made: JSONObject = told.json()
        return made

    def settled(self, requests: int, **outcomes: int) -> JSONObject:
        """The summary, once so many requests have got their row."""
        until(lambda: self.shadow()["requests"] >= requests)
        made = self.shadow()
        assert made["requests"] == requests
        for name, count in outcomes.items():
            assert made["since_start"][name] == count, made
        return made


@contextmanager
def mirroring(home: Path, live: SimulatorThread, url: str, **shadow: Any) -> Iterator[Site]:
    with running_gateway(mirror_settings(home, live, url, **shadow)) as gateway:
        wait_until_ready(gateway)
        yield Site(url=gateway)


def mirror_settings(home: Path, live: SimulatorThread, url: str, **shadow: Any) -> Settings:
    chosen = ShadowSettings.model_validate({"url": url, "fraction": 1, "timeout_s": 60} | shadow)
    return gateway_settings(home, live.url).model_copy(update={"shadow": chosen})


@pytest.fixture(scope="package")
def live(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    """Each test's gateway has a secret of its own, so that none finds what another computed."""
    with simulator(tokenizer_folder) as running:
        yield running


@pytest.fixture(scope="package")
def running_second(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    with simulator(tokenizer_folder) as running:
        yield running


@pytest.fixture
def second(running_second: SimulatorThread) -> Iterator[SimulatorThread]:
    """A target; what is ordered of it is taken back."""
    yield running_second
    url = f"{running_second.url}/simulator/faults"
    httpx.delete(url, trust_env=False).raise_for_status()


@dataclass
class RawTarget:
    """A target that takes requests and answers as it is told; everybody gets the same."""

    pieces: Callable[[], Iterator[bytes]]
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, listener: socket.socket) -> None:
        listener.settimeout(0.1)
        while not self._stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(0.2)
            try:
                self.requests.append(_request(connection))
                for piece in self.pieces():
                    if self._stop.is_set():
                        return
                    connection.settimeout(5)
                    connection.sendall(piece)
            except OSError:
                return

    def stop(self) -> None:
        self._stop.set()


def _request(connection: socket.socket) -> bytes:
    """Head and body of what a client sends."""
    data = b""
    while True:
        try:
            more = connection.recv(65536)
        except TimeoutError:
            return data
        if not more:
            return data
        data += more


@contextmanager
def raw_target(pieces: Callable[[], Iterator[bytes]]) -> Iterator[RawTarget]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = RawTarget(pieces=pieces, port=listener.getsockname()[1])
        thread = threading.Thread(target=target.serve, args=(listener,))
        thread.start()
        try:
            yield target
        finally:
            target.stop()
            thread.join()
