"""A gateway that is told to stop finishes what it has begun, within its patience."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

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
    with subprocess.Popen([*command, *options], cwd=REPOSITORY, env=env) as process:
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
        assert _rows(gateway.home) == ["ok"]


def test_an_answer_that_takes_longer_is_cut_and_recorded(
    slow_engine: SimulatorThread, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, slow_engine.url, FOREWORD_GATEWAY__DRAIN_S="1") as gateway,
        streaming(gateway, tokens=2000) as lines,
    ):
        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        with pytest.raises(httpx.TransportError):
            list(lines)
        gateway.process.wait(60)
        assert time.monotonic() - began < 30
        (status,) = _rows(gateway.home)
        assert status != "ok"


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


def _rows(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "foreword.db")) as database:
        return [row[0] for row in database.execute("select status from ledger")]
