"""The gateway is killed at twenty random moments of a run: no step is lost, and what may not be
done twice is done once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.stack.ports import free_ports
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.agents.notes import AGENT, calls, written
from tests.gateways import wait_until_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[3]
KILLS, STEPS, PATIENCE_S = 20, 30, 300.0
SCRIPT = tuple(
    # Two calls beside each other in every third step.
    calls(("write", f"line {n}"), ("look", f"line {n}")) if n % 3 == 0 else
    calls(("write", f"line {n}"))
    for n in range(STEPS)
)  # fmt: skip


@contextmanager
def nursery(home: Path, engine: str) -> Iterator["subprocess.Popen[str]"]:
    """What gateways are forked from."""
    command = [sys.executable, "-m", "tests.app.agents.serve_notes", home / "home", home / "agents"]
    options = [home / "notes.txt", "0.2", engine]
    with subprocess.Popen(
        [*command, *options],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(nursery: "subprocess.Popen[str]") -> Iterator[httpx.Client]:
    """A gateway that is killed in the end."""
    (port,) = free_ports(1)
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{port}\n")
    nursery.stdin.flush()
    pid = int(nursery.stdout.readline())
    url = f"http://127.0.0.1:{port}"
    # Its clients leave after it: a gateway that lives ends the run of one that has gone.
    with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
        try:
            _wait_for_port(url)
            wait_until_ready(url, within_s=PATIENCE_S)
            yield client
        finally:
            os.kill(pid, signal.SIGKILL)
            _wait_until_gone(pid)


def _wait_for_port(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline
        try:
            httpx.get(f"{url}/livez", trust_env=False)
            return
        except httpx.TransportError:
            time.sleep(0.05)


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def begun(client: httpx.Client) -> tuple[str, Iterator[str]]:
    """The id of a run, and its events, which its client reads until the gateway is killed."""
    body = {"model": "agent:writer", "input": "Write.", "stream": True}
    request = client.build_request("POST", "/v1/responses", json=body)
    lines = client.send(request, stream=True).iter_lines()
    data = next(lines)
    while not data.startswith("data: "):
        data = next(lines)
    # To let go of the iterator is to leave.
    return json.loads(data.removeprefix("data: "))["response"]["id"], lines


def looked_at(client: httpx.Client, run_id: str, notes: Path, asked: list[str]) -> dict[str, Any]:
    """The run as it stands. Where somebody has to decide, somebody looks into the file first."""
    run: dict[str, Any] = client.get(f"/foreword/agents/runs/{run_id}").raise_for_status().json()
    for call in run["waiting"]:
        assert call["name"] == "write", "what may be done twice isn't asked about"
        asked.append(call["call_id"])
        decision = {"call_id": call["call_id"], "action": "retry"}
        if f"write {call['arguments']}" in written(notes):
            decision |= {"action": "skip", "output": "it was done"}
        path = f"/foreword/agents/runs/{run_id}/decide"
        client.post(path, json=decision).raise_for_status()
    return run


def test_killed_at_random_moments_it_loses_no_step_and_doubles_no_call(
    calling_model: Path, tmp_path: Path
) -> None:
    chance = random.Random(7)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "writer.yaml").write_text(AGENT)
    notes = tmp_path / "notes.txt"
    config = SimulatorConfig(
        model_path=calling_model,
        script=SCRIPT,
        eos_every_tokens=12,
        context_tokens=16_384,
        capacity_tokens=40_000,
        clock=ClockConfig(speedup=5),
    )
    run_id, events = "", None
    within, asked, progress = 0, list[str](), list[int]()
    with SimulatorThread(config) as simulator, nursery(tmp_path, simulator.url) as gateways:
        for _ in range(KILLS):
            with serving(gateways) as client:
                if not run_id:
                    run_id, events = begun(client)
                until = time.monotonic() + chance.uniform(0.0, 2.5)
                while time.monotonic() < until:
                    run = looked_at(client, run_id, notes, asked)
                    time.sleep(0.05)
                run = looked_at(client, run_id, notes, asked)
                progress.append(len(run["steps"]))
                within += run["status"] == "in_progress"
        with serving(gateways) as client:
            deadline = time.monotonic() + PATIENCE_S
            while (run := looked_at(client, run_id, notes, asked))["status"] != "completed":
                assert run["status"] in ("in_progress", "interrupted"), run
                assert time.monotonic() < deadline, run
                time.sleep(0.1)
            response = client.get(f"/v1/responses/{run_id}").raise_for_status().json()
    assert events is not None, "its client never left"
    assert within > KILLS // 4, "the moments were within the run"
    assert progress == sorted(progress), "what was done stays done"
    lines = written(notes)
    writes = [line for line in lines if line.startswith("write")]
    assert sorted(writes) == sorted(f'write {{"line": "line {n}"}}' for n in range(STEPS))
    assert {line for line in lines if line.startswith("look")} == {
        f'look {{"line": "line {n}"}}' for n in range(0, STEPS, 3)
    }
    made = [call for step in SCRIPT for call in step]
    outputs = [item for item in response["output"] if item["type"] == "function_call_output"]
    named = [item for item in response["output"] if item["type"] == "function_call"]
    assert [(item["name"], item["arguments"]) for item in named] == [
        (call.name, call.arguments) for call in made
    ]
    assert [item["call_id"] for item in outputs] == [item["call_id"] for item in named]
    assert len(run["steps"]) == STEPS + 1
    assert response["output"][-1]["type"] == "message"
