"""A gateway that is told to stop finishes what it has begun, within its patience."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

import httpx
import pytest

from app.stack.ports import free_ports
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import wait_until_ready

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A `foreword serve` in a process of its own."""

    url: str
    process: "subprocess.Popen[bytes]"
    home: Path

    def lines(self) -> list[dict[str, Any]]:
        """The log."""
        return [json.loads(line) for line in (self.home / "log").read_text().splitlines()]


@pytest.fixture(scope="module")
def slow_engine(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    """About 8 s for the answer that is asked for here."""
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=1))
    with SimulatorThread(config) as running:
        yield running


@contextmanager
def serving(home: Path, engine_url: str, **settings: str) -> Iterator[Serving]:
    (port,) = free_ports(1)
    env = os.environ | settings
    env |= {"FOREWORD_HOME": str(home), "FOREWORD_CACHE": str(home / "cache")}
    env |= {"FOREWORD_RETRIEVAL__EMBEDDER": "hashing"}
    command = [sys.executable, "-m", "app.serve"]
    options = ["--engine-url", engine_url, "--port", str(port)]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen([*command, *options], cwd=REPOSITORY, env=env, stderr=log) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for_port(url, process)
            wait_until_ready(url)
            yield Serving(url=url, process=process, home=home)
        finally:
            process.kill()


def _wait_for_port(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        try:
            httpx.get(f"{url}/livez", trust_env=False)
            return
        except httpx.TransportError:
            time.sleep(0.1)


@contextmanager
def streaming(gateway: Serving, *, tokens: int) -> Iterator[Iterator[str]]:
    """The lines of an answer that has begun."""
    body = {
        "model": "default",
        "stream": True,
        "max_tokens": tokens,
        "messages": [{"role": "user", "content": "Tell me about ferries."}],
    }
    path = f"{gateway.url}/v1/chat/completions"
    with httpx.stream("POST", path, json=body, timeout=60, trust_env=False) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        yield lines


def test_an_answer_under_way_is_finished_and_nothing_new_is_taken(
    slow_engine: SimulatorThread, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, slow_engine.url) as gateway,
        streaming(gateway, tokens=100) as lines,
    ):
        gateway.process.send_signal(signal.SIGTERM)
        _wait_until_refused(gateway.url)
        rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert len(rest) > 50
        gateway.process.wait(60)
        assert _rows(gateway.home, "status") == [("ok",)]


CHAT = {"messages": [{"role": "user", "content": "Tell me about ferries."}]}
FORMS = {
    "/v1/chat/completions": CHAT | {"max_tokens": 2000},
    "/v1/completions": {"prompt": ["Ferries", "Trains"], "max_tokens": 2000},
    "/v1/responses": {"input": "Tell me about ferries.", "max_output_tokens": 2000},
}


@dataclass(frozen=True, slots=True)
class Cut:
    """What a client heard of an answer that wasn't finished."""

    status: int
    headers: httpx.Headers
    text: str

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.text)["error"]
        return error

    @property
    def last_event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.text.strip().rpartition("data: ")[2])
        return event


def test_answers_that_take_longer_are_told_so_and_recorded(
    slow_engine: SimulatorThread, tmp_path: Path
) -> None:
    """Whole and streamed, of each API: an error of that API's own, a row, and a line in the log."""
    asked = [(path, streams) for path in FORMS for streams in (False, True)]
    with serving(tmp_path, slow_engine.url, FOREWORD_GATEWAY__DRAIN_S="1") as gateway:
        begun = Semaphore(0)
        with ThreadPoolExecutor(len(asked)) as pool:
            heard = pool.map(partial(_heard, gateway.url, begun), asked)
            for _ in FORMS:
                assert begun.acquire(timeout=60)
            _wait_until_in_flight(gateway.url, len(asked))
            gateway.process.send_signal(signal.SIGTERM)
            cut = dict(zip(asked, heard, strict=True))
        assert gateway.process.wait(60) == 0
    for path in FORMS:
        whole, stream = cut[path, False], cut[path, True]
        assert whole.status == 503
        assert whole.error["code"] == "gateway_stopping"
        assert "stopping" in whole.error["message"]
        assert int(whole.headers["retry-after"]) > 0
        assert stream.status == 200
        assert "[DONE]" not in stream.text
    assert cut["/v1/chat/completions", True].last_event["error"]["code"] == "gateway_stopping"
    assert cut["/v1/completions", True].last_event["error"]["code"] == "gateway_stopping"
    failed = cut["/v1/responses", True].last_event
    assert failed["type"] == "response.failed"
    assert "stopping" in failed["response"]["error"]["message"]
    assert _rows(gateway.home, "status, error_code") == [("error", "gateway_stopping")] * 8
    lines = gateway.lines()
    assert [line["requests"] for line in lines if line["event"] == "stopping"] == [6]
    assert [line["requests"] for line in lines if line["event"] == "requests_cut"] == [6]
    assert lines[-1]["event"] == "stopped"
    told = [line for line in lines if line["event"] == "request" and "status" in line]
    assert sorted(line["code"] for line in told) == [200] * 3 + [503] * 3
    assert {line["error_code"] for line in told} == {"gateway_stopping"}


def _heard(url: str, begun: Semaphore, asked: tuple[str, bool]) -> Cut:
    """The answer to a request; `begun` is told of each stream that begins."""
    path, streams = asked
    body = FORMS[path] | {"model": "default", "stream": streams}
    with httpx.stream("POST", url + path, json=body, timeout=60, trust_env=False) as answer:
        text = ""
        for part in answer.iter_text():
            if streams and not text:
                begun.release()
            text += part
        return Cut(answer.status_code, answer.headers, text)


def _wait_until_in_flight(url: str, requests: int) -> None:
    deadline = time.monotonic() + 60
    expected = f"foreword_in_flight_requests {float(requests)}"
    while expected not in httpx.get(f"{url}/metrics", trust_env=False).text:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _wait_until_refused(url: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/livez", trust_env=False)
        except httpx.ConnectError:
            return
        except (httpx.ReadError, httpx.RemoteProtocolError):
            continue  # it was waiting to be taken when the gateway stopped to listen
        time.sleep(0.05)
    pytest.fail("the gateway goes on taking connections")


def _rows(home: Path, columns: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(home / "foreword.db")) as database:
        return list(database.execute(f"select {columns} from ledger"))
