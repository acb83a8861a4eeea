"""The two processes of a soak: the simulator, and `foreword serve` before it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from bench.child_process import free_port, running_child
from bench.errors import SoakError
from bench.soak.fault_plan import EVENT_BUFFER_STEPS
from bench.soak.http import HttpClient
from bench.soak.model_folder import CONTEXT_TOKENS, write_model_folder
from bench.soak.options import SoakOptions

_START_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Both processes, and where they listen on 127.0.0.1."""

    gateway_pid: int
    gateway_port: int
    simulator_pid: int
    simulator_port: int


@contextmanager
def running_processes(options: SoakOptions) -> Iterator[Running]:
    """Start both; stop both, however it ends. Their output is in the soak's folder.

    Raises:
        SoakError: one of them did not start.
    """
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model = write_model_folder(folder / "model")
    with running_child(
        simulator_command(options, model), folder, "simulator", os.environ
    ) as simulator:
        simulator_port = _announced_port(simulator, folder / "simulator.log")
        port = free_port()
        command = [sys.executable, "-m", "app.serve", "--port", str(port)]
        environment = gateway_environment(options, folder, simulator_port)
        with running_child(command, folder, "gateway", environment) as gateway:
            yield Running(
                gateway_pid=gateway.pid,
                gateway_port=port,
                simulator_pid=simulator.pid,
                simulator_port=simulator_port,
            )


def simulator_command(options: SoakOptions, model: Path) -> list[str]:
    settings = {
        "--model-path": model,
        "--served-model-name": "soak",
        "--port": 0,
        "--max-total-tokens": options.pool_tokens,
        "--context-length": CONTEXT_TOKENS,
        "--kv-events-endpoint": "tcp://127.0.0.1:0",
        "--kv-events-replay-endpoint": "tcp://127.0.0.1:0",
        "--kv-events-buffer-steps": EVENT_BUFFER_STEPS,
        "--speedup": options.speedup,
    }
    pairs = [str(part) for pair in settings.items() for part in pair]
    return [sys.executable, "-m", "bench.engine_sim", *pairs, "--label", "template"]


def gateway_environment(
    options: SoakOptions, folder: Path, simulator_port: int
) -> Mapping[str, str]:
    """None of the caller's own settings, and those of the soak."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWORD_")}
    return kept | {
        "FOREWORD_HOME": str(folder / "home"),
        "FOREWORD_CACHE": str(folder / "cache"),
        "FOREWORD_ENGINE__URL": f"http://127.0.0.1:{simulator_port}",
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
        "FOREWORD_ACCOUNTING__ENABLED": str(options.accounting).lower(),
        "FOREWORD_ACCOUNTING__MAX_PAGES": str(options.max_pages),
        "FOREWORD_ACCOUNTING__MAX_LINEAGES": str(options.max_lineages),
        "FOREWORD_GATEWAY__CONVERSATION_MB": str(options.conversation_mb),
        "FOREWORD_GATEWAY__OPENING_MB": str(options.opening_mb),
    }


async def wait_until_ready(client: HttpClient, what: str) -> None:
    """Raises SoakError: the gateway did not get ready in two minutes."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            if (await client.send("GET", "/readyz")).status == 200:
                return
        except OSError:
            pass
        await asyncio.sleep(0.2)
    raise SoakError(what, f"it was not ready within {_START_S:.0f} s")


def _announced_port(process: "subprocess.Popen[str]", log: Path) -> int:
    """The port in the URL that the simulator prints first."""
    output: IO[str] | None = process.stdout
    assert output is not None
    port = urlsplit(output.readline().strip()).port
    if port is None:
        raise SoakError("the simulator", f"it did not start; see {log}")
    return port
