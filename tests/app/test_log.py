"""Log lines: written in order, by a thread that nobody waits for, without anybody's words."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.log import LineWriter
from app.stack.ports import free_ports
from bench.engine_sim import SimulatorThread
from tests.gateways import wait_until_ready
from tests.processes import end

_SECRET = "Quillfeather"
_LINES = 12_000


@contextmanager
def writer_to_a_pipe(max_waiting: int = 10_000) -> Iterator[tuple[LineWriter, int]]:
    """A writer, and the end of a pipe where its lines arrive."""
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end, max_waiting=max_waiting)
    try:
        yield writer, read_end
    finally:
        writer.close()
        os.close(write_end)
        os.close(read_end)


def test_lines_arrive_whole_and_in_order() -> None:
    with writer_to_a_pipe() as (writer, end):
        for number in range(500):
            writer.write(b"line %d" % number)
        writer.close()
        assert os.read(end, 65536).split(b"\n") == [b"line %d" % n for n in range(500)] + [b""]
        assert writer.dropped == 0


def test_a_reader_that_stops_reading_holds_nobody_up_and_is_told_what_it_missed() -> None:
    with writer_to_a_pipe(max_waiting=1_000) as (writer, end):
        line = b"x" * 1_000
        for _ in range(_LINES):
            writer.write(line)
            time.sleep(0)
        assert writer.dropped > 0
        told, deadline = b"", time.monotonic() + 60
        while b"log_lines_dropped" not in told:
            assert time.monotonic() < deadline
            told = told[-1_000:] + os.read(end, 1 << 20)


def test_a_closed_pipe_is_no_error() -> None:
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end)
    os.close(read_end)
    writer.write(b"for nobody")
    writer.close()
    assert writer.dropped == 1
    os.close(write_end)


@contextmanager
def served(engine_url: str, home: Path, **environment: str) -> Iterator[tuple[str, Path]]:
    """The URL of `foreword serve`, and the file where its stderr goes."""
    log = home / "stderr"
    (port,) = free_ports(1)
    told = {
        "FOREWORD_HOME": str(home),
        "FOREWORD_CACHE": str(home / "cache"),
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
        **environment,
    }
    command = [
        sys.executable, "-m", "app.serve", "--engine-url", engine_url, "--port", str(port),
    ]  # fmt: skip
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env=os.environ | told)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url)
            yield url, log
        finally:
            end(process)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            wait_until_ready(url)
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the gateway did not start"
            time.sleep(0.1)
        else:
            return


@pytest.mark.slow
def test_every_request_has_one_line_with_its_id_and_without_its_words(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    message = {"role": "user", "content": f"Who is {_SECRET}?"}
    good = {"model": "default", "messages": [message], "max_tokens": 4}
    with (
        served(simulator.url, tmp_path, FOREWORD_LOG__LEVEL="debug") as (url, log),
        httpx.Client(base_url=url, trust_env=False) as client,
    ):
        answers = [
            client.post("/v1/chat/completions", json=good),
            client.post("/v1/chat/completions", json=good | {"stream": True}),
            client.post("/v1/chat/completions", json=good | {"model": _SECRET}),
            client.post("/v1/chat/completions", content=b'{"messages": "Quillfeather'),
            client.get(f"/v1/{_SECRET}?name={_SECRET}"),
            client.get("/v1/models", headers={"x-client-request-id": "mine-1"}),
            client.post("/v1/vector_stores", json={"name": _SECRET}),
        ]
        client.get("/livez")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    told = {line["request_id"]: line for line in requests}
    assert [answer.headers["x-request-id"] in told for answer in answers] == [True] * len(answers)
    assert len(told) == len(requests)
    assert {line["route"] for line in requests} >= {"/v1/chat/completions", "unmatched"}
    assert "/livez" not in {line["route"] for line in requests}

    mine = [told[answer.headers["x-request-id"]] for answer in answers]
    assert [line["code"] for line in mine] == [a.status_code for a in answers]
    assert [line["code"] for line in mine[:5]] == [200, 200, 404, 400, 404]
    assert mine[0]["completion_tokens"] == 4
    assert mine[0]["status"] == "ok"
    assert mine[0]["template"] == "chat@1"
    assert mine[1]["ttft_s"] > 0
    assert mine[2]["error_code"] == "model_not_found"
    assert mine[5]["client_request_id"] == "mine-1"
    assert _SECRET not in log.read_text()


@pytest.mark.slow
def test_request_lines_can_be_switched_off(simulator: SimulatorThread, tmp_path: Path) -> None:
    with served(simulator.url, tmp_path, FOREWORD_LOG__REQUESTS="false") as (url, log):
        assert httpx.get(f"{url}/v1/models", trust_env=False).status_code == 200
    assert '"event":"request"' not in log.read_text()
