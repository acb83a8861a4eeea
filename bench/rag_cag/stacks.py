"""What is measured: `foreword up` on this machine, or a gateway before the simulated engine."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.child_process import free_port, running_child
from bench.errors import GatewayAnswerError, StackStartError

_START_S = 400.0
# The engine is installed and the default model made: pip, two gigabytes and a conversion.
_FIRST_START_S = 1800.0
_STILL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Addresses of a running stack; `tier_url` is None without tiers.

    Attributes:
        engine_url: the first engine; `engine_urls` has all of a real stack's.
        model: its public name.
    """

    url: str
    engine_url: str
    tier_url: str | None = None
    engine_urls: tuple[str, ...] = ()
    model: str | None = None

    def flush_engine(self) -> None:
        """Empty the engine's memory; the tiers keep theirs."""
        while not httpx.post(f"{self.engine_url}/flush_cache", trust_env=False).is_success:
            time.sleep(0.1)

    def prefill_tokens_per_s(self) -> float:
        """As the gateway measured it.

        Raises:
            GatewayAnswerError: it computed too little to know.
        """
        told = httpx.get(f"{self.url}/foreword/plan", timeout=30, trust_env=False).json()
        speed = told["engine"]["prefill_tokens_per_s"]
        if speed is None:
            raise GatewayAnswerError(self.url, "it has not measured the engine's speed")
        return float(speed)

    def clear_ram(self) -> None:
        """Drop what lies in the tiers' RAM."""
        assert self.tier_url is not None
        path, body = f"{self.tier_url}/cache/clear", {"tier": "l1"}
        httpx.post(path, json=body, timeout=30, trust_env=False).raise_for_status()

    def let_stores_end(self) -> None:
        """Wait until nothing more is written below RAM."""
        if self.tier_url is None:
            return
        before, still = self._stored(), 0
        while still < _STILL:
            time.sleep(0.1)
            after = self._stored()
            still, before = (still + 1 if after == before else 0), after

    def _stored(self) -> list[int]:
        path = f"{self.tier_url}/foreword/status"
        told = httpx.get(path, timeout=30, trust_env=False).raise_for_status().json()
        return [adapter["stores"]["chunks"] for adapter in told["adapters"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """How the real stack is started."""

    cache: Path
    pool_tokens: int
    model: str | None = None
    replicas: int = 1
    tiers: bool = True
    ram_gb: float = 1.0
    ssd_gb: float = 4.0
    env: Mapping[str, str] | None = None


@contextmanager
def running_up(options: UpOptions, folder: Path) -> Iterator[Stack]:
    """`foreword up`, all of it: SGLang on the CPU, LMCache and the gateway.

    Where nothing was started from this cache before, it has time to install the engine.

    Raises:
        StackStartError: it didn't get ready.
    """
    home = folder / "home"
    command = [
        str(Path(sys.executable).with_name("foreword")), "up", "--cpu", "--port", "0",
        "--home", str(home), "--cache", str(options.cache.resolve()),
        "--pool-tokens", str(options.pool_tokens), "--replicas", str(options.replicas),
        *(_tiers(options) if options.tiers else ["--no-tiers"]),
        *(["--model", _model(options.model)] if options.model else []),
    ]  # fmt: skip
    with running_child(command, folder, "stack", _environment(options.env)) as process:
        within_s = _START_S if any(options.cache.glob("models/*.json")) else _FIRST_START_S
        facts, log = home / "run" / "stack.json", folder / "stack.log"
        yield _ready_stack(process, facts, log, within_s)


@contextmanager
def running_simulated(
    simulator: list[str], folder: Path, env: Mapping[str, str]
) -> Iterator[Stack]:
    """`foreword serve` before `python -m bench.engine_sim`, started with these options.

    Raises:
        StackStartError: one of them didn't get ready.
    """
    command = [sys.executable, "-m", "bench.engine_sim", "--port", "0", *simulator]
    with running_child(command, folder, "simulator", _environment(None)) as engine:
        assert engine.stdout is not None
        engine_url = engine.stdout.readline().strip()
        if not engine_url:
            raise StackStartError("the simulator", folder / "simulator.log")
        port = free_port()
        own = {
            "FOREWORD_HOME": str(folder / "home"),
            "FOREWORD_CACHE": str(folder / "cache"),
            "FOREWORD_ENGINE__URL": engine_url,
        }
        serve = [sys.executable, "-m", "app.serve", "--port", str(port)]
        with running_child(serve, folder, "gateway", _environment({**own, **env})) as gateway:
            stack = Stack(url=f"http://127.0.0.1:{port}", engine_url=engine_url)
            _wait(lambda: _is_ready(stack.url), gateway, "the gateway", folder / "gateway.log")
            yield stack


def _model(model: str) -> str:
    """A folder by its whole path, since the stack runs in a folder of its own; or a name."""
    folder = Path(model)
    return str(folder.resolve()) if folder.is_dir() else model


def _tiers(options: UpOptions) -> list[str]:
    return ["--ram-gb", str(options.ram_gb), "--ssd-gb", str(options.ssd_gb)]


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """None of the caller's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWORD_")}
    return kept | {"FOREWORD_RETRIEVAL__EMBEDDER": "hashing"} | dict(env or {})


def _ready_stack(
    process: "subprocess.Popen[str]", facts: Path, log: Path, within_s: float
) -> Stack:
    found: list[Stack] = []

    def look() -> bool:
        with suppress(OSError, json.JSONDecodeError):
            told = json.loads(facts.read_text())
            if told["ready"] and _is_ready(told["url"]):
                same = {name: told[name] for name in ("url", "engine_url", "tier_url", "model")}
                found.append(Stack(**same, engine_urls=tuple(told["engine_urls"])))
        return bool(found)

    _wait(look, process, "`foreword up`", log, within_s)
    return found[0]


def _is_ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=10, trust_env=False).status_code == 200
    return False


def _wait(
    look: Callable[[], bool],
    process: "subprocess.Popen[str]",
    what: str,
    log: Path,
    within_s: float = _START_S,
) -> None:
    deadline = time.monotonic() + within_s
    while not look():
        if process.poll() is not None or time.monotonic() > deadline:
            raise StackStartError(what, log)
        time.sleep(0.2)
