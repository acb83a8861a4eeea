"""One gateway on one core, its engine and its clients on another."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from bench.child_process import free_port, running_child, wait_for_port
from bench.errors import GatewayBenchError
from bench.gateway.peers import Peer
from bench.soak.model_folder import write_model_folder
from bench.soak.proc import process_state

MODEL = "model"
_GATEWAY_CORE, _HARNESS_CORE = 1, 0
_START_S = 180.0
_PAGE = 16
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is asked. `rate` 0 is a closed loop of `connections`, otherwise requests a second."""

    name: str
    bodies: Path
    connections: int
    seconds: float
    rate: float = 0.0
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked: its first process, its port on loopback, and the key that it wants."""

    pid: int
    port: int
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The built programs, and how many words an answer has."""

    upstream: Path
    load: Path
    chunks: int


def build_tools(folder: Path, *, chunks: int) -> Tools:
    """Compiles both programs.

    Raises:
        GatewayBenchError: there is no C compiler, or it fails.
    """
    for name in ("upstream", "load"):
        sources = [str(_HERE / f"{name}.c"), str(_HERE / "http.c")]
        try:
            done = subprocess.run(
                ["cc", "-O2", "-o", str(folder / name), *sources],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise GatewayBenchError("the harness", "needs a C compiler (cc)") from error
        if done.returncode:
            raise GatewayBenchError("the harness", f"could not be built: {done.stderr[-500:]}")
    return Tools(upstream=folder / "upstream", load=folder / "load", chunks=chunks)


@contextmanager
def running_upstream(tools: Tools, folder: Path, *, gap_ms: int) -> Iterator[int]:
    """The engine that costs nothing; yields its port.

    Raises:
        GatewayBenchError: it or the simulator behind it doesn't start.
    """
    model = write_model_folder(folder / MODEL)
    simulator = [
        sys.executable, "-m", "bench.engine_sim", "--model-path", str(model),
        "--served-model-name", "bench", "--port", "0", "--page-size", str(_PAGE),
    ]  # fmt: skip
    with running_child(_pinned(simulator, _HARNESS_CORE), folder, "simulator", _clean()) as engine:
        assert engine.stdout is not None
        simulator_port = urlsplit(engine.stdout.readline().strip()).port
        if simulator_port is None:
            raise GatewayBenchError(
                "the simulator", f"does not start: {_tail(folder, 'simulator')}"
            )
        port = free_port()
        command = [str(tools.upstream), *map(str, (port, simulator_port, tools.chunks, gap_ms))]
        with running_child(_pinned(command, _HARNESS_CORE), folder, "upstream", _clean()) as engine:
            if not wait_for_port(engine, port, _START_S):
                raise GatewayBenchError(
                    "the engine", f"does not start: {_tail(folder, 'upstream')}"
                )
            yield port


@contextmanager
def running_gateway(peer: Peer, folder: Path, upstream: int) -> Iterator[Target]:
    """A gateway; yields where it is.

    Raises:
        GatewayBenchError: it doesn't get ready.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    environment = _clean() | dict(peer.environment(folder, upstream))
    key = peer.make_key(folder, environment)
    command = _pinned(peer.command(folder, port, upstream), _GATEWAY_CORE)
    with running_child(command, folder, peer.name, environment) as process:
        deadline = time.monotonic() + _START_S
        while not _answers(f"http://127.0.0.1:{port}{peer.ready}"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise GatewayBenchError(peer.name, f"does not start: {_tail(folder, peer.name)}")
            time.sleep(0.2)
        yield Target(pid=process.pid, port=port, key=key)


def ask(tools: Tools, target: Target, load: Load) -> dict[str, Any]:
    """Runs the clients once.

    Raises:
        GatewayBenchError: they could not run.
    """
    command = [
        str(tools.load), str(target.port), str(load.bodies), str(load.connections),
        str(load.seconds), str(load.rate), str(int(load.stream)), str(tools.chunks),
        *([f"authorization: Bearer {target.key}"] if target.key else []),
    ]  # fmt: skip
    done = subprocess.run(
        _pinned(command, _HARNESS_CORE), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise GatewayBenchError("the load", f"could not run: {done.stderr[-500:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    if done.stderr:
        told["first_wrong"] = done.stderr[:2000]
    return told


def encoding_us(model: Path, bodies: Path, seconds: float) -> float:
    """CPU µs that encoding a request's new text takes; see `bench.gateway.encoding`.

    Raises:
        GatewayBenchError: it could not be measured.
    """
    command = [
        sys.executable, "-m", "bench.gateway.encoding", str(model), str(bodies), str(seconds)
    ]  # fmt: skip
    done = subprocess.run(
        _pinned(command, _GATEWAY_CORE), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise GatewayBenchError("encoding", f"could not be measured: {done.stderr[-500:]}")
    return float(done.stdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a gateway's processes have taken together since their start."""

    cpu_s: float
    rss_mb: float


def used(pid: int) -> Used:
    """Of a process and all below it."""
    states = []
    for one in _family(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            states.append(process_state(one))
    return Used(
        cpu_s=sum(state.cpu_s for state in states),
        rss_mb=sum(state.rss_kb for state in states) / 1024,
    )


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    below: list[int] = []
    for listed in children:
        with suppress(FileNotFoundError, ProcessLookupError):
            below += [int(child) for child in listed.read_text().split()]
    return [pid, *(one for child in below for one in _family(child))]


def _pinned(command: list[str], core: int) -> list[str]:
    return ["taskset", "--cpu-list", str(core), *command]


def _clean() -> dict[str, str]:
    kept: Mapping[str, str] = os.environ
    return {name: value for name, value in kept.items() if not name.startswith("FOREWORD_")}


def _answers(url: str) -> bool:
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _tail(folder: Path, name: str) -> str:
    lines = (folder / f"{name}.log").read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
