"""Gateways of several source trees, each before a simulated engine of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.child_process import free_port, running_child
from bench.errors import SoakError
from bench.soak.model_folder import CONTEXT_TOKENS, write_model_folder

_POOL_TOKENS = 400_000
# A bare proxy beside the gateways, so that figures of different machines can be compared.
FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class Gateway:
    """One running gateway; `name` says which tree it comes from."""

    name: str
    pid: int
    port: int


@contextmanager
def running_gateways(
    trees: Mapping[str, Path], folder: Path, *, step_s: float
) -> Iterator[list[Gateway]]:
    """Start a simulator and a gateway for each tree; stop all of them, however it ends.

    Args:
        step_s: real seconds of one decode step of the simulator; 0 as fast as it can.

    Raises:
        SoakError: a simulator did not start.
    """
    with ExitStack() as stack:
        yield [
            stack.enter_context(_running(name, tree, folder / name, step_s))
            for name, tree in ({FLOOR: None} | dict(trees)).items()
        ]


@contextmanager
def _running(name: str, tree: Path | None, folder: Path, step_s: float) -> Iterator[Gateway]:
    folder.mkdir(parents=True, exist_ok=True)
    model = write_model_folder(folder / "model")
    with running_child(_simulator(model, step_s), folder, "simulator", os.environ) as simulator:
        engine_port = _announced_port(simulator, folder / "simulator.log")
        port = free_port()
        if tree is None:
            command = [sys.executable, "-m", "bench.hot_path.floor", str(engine_port), str(port)]
            environment: Mapping[str, str] = os.environ
        else:
            command = [sys.executable, "-m", "app.serve", "--port", str(port)]
            environment = _environment(tree, folder, engine_port)
        with running_child(command, folder, "gateway", environment) as gateway:
            yield Gateway(name, gateway.pid, port)


def _simulator(model: Path, step_s: float) -> list[str]:
    settings = {
        "--model-path": model,
        "--served-model-name": "hot",
        "--port": 0,
        "--max-total-tokens": _POOL_TOKENS,
        "--context-length": CONTEXT_TOKENS,
        "--kv-events-endpoint": "tcp://127.0.0.1:0",
        "--kv-events-replay-endpoint": "tcp://127.0.0.1:0",
        "--decode-step-s": step_s,
        "--prefill-tokens-per-s": 1e9,
    }
    pairs = [str(part) for pair in settings.items() for part in pair]
    return [sys.executable, "-m", "bench.engine_sim", *pairs, "--label", "template"]


def _environment(tree: Path, folder: Path, engine_port: int) -> Mapping[str, str]:
    """None of the caller's own settings; everything at its default, accounting on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWORD_")}
    return kept | {
        "PYTHONPATH": str(tree),
        "FOREWORD_HOME": str(folder / "home"),
        "FOREWORD_CACHE": str(folder / "cache"),
        "FOREWORD_ENGINE__URL": f"http://127.0.0.1:{engine_port}",
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
    }


def _announced_port(process: "subprocess.Popen[str]", log: Path) -> int:
    """The port in the URL that the simulator prints first."""
    assert process.stdout is not None
    port = urlsplit(process.stdout.readline().strip()).port
    if port is None:
        raise SoakError("the simulator", f"it did not start; see {log}")
    return port
