"""Where arms are asked: the real stack on this machine's CPU, or simulated engines."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import tokenizers

from bench.child_process import free_port, running_child
from bench.errors import ExperimentError, StackStartError
from bench.rag_cag.stacks import Stack, UpOptions, running_up
from bench.soak.model_folder import write_model_folder

_START_S = 120.0
_DEFAULT_MODEL = "smollm2-135m-instruct"
_SIMULATED_MODEL = "simulated"
_SIMULATED_CONTEXT = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an arm's stack is started with; arms of equal settings share one.

    Attributes:
        ram_gb: the RAM tier of a real stack; `tier_tokens`, the tier of a simulated one (0: none).
        policy: of routing, where there is more than one replica.
        page_tokens, prefill_tokens: page size and chunked-prefill budget, simulated only; None:
            as they are.
    """

    pool_tokens: int = 24_000
    tiers: bool = True
    ram_gb: float = 2.0
    tier_tokens: int = 0
    replicas: int = 1
    policy: str | None = None
    page_tokens: int | None = None
    prefill_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What stacks are made of: `real` or not, and where the real one's parts are.

    Attributes:
        model: a folder or name, as of `foreword up`; None: its default.
        speedup: of the simulated clock.
    """

    real: bool
    cache: Path = Path(".foreword/cache")
    model: str | None = None
    speedup: float = 20.0

    @property
    def model_name(self) -> str:
        """For people: no path of this machine."""
        if not self.real:
            return _SIMULATED_MODEL
        return _DEFAULT_MODEL if self.model is None else Path(self.model).name


def prepare(host: Host, say: Callable[[str], None]) -> None:
    """Once: the engine installed, and its default model made.

    Raises:
        StackStartError: it can't be.
    """
    with TemporaryDirectory(prefix="foreword-bench-") as made:
        if _model_folder(host, Path(made)) is None:
            say("the engine isn't here yet: installing it, which takes minutes")
            options = UpOptions(cache=host.cache, pool_tokens=4096, tiers=False)
            with running_up(options, Path(made)):
                pass


def tokens_per_word(host: Host, text: str) -> float | None:
    """Of this text, by the tokenizer of the model; None where that isn't here yet."""
    with TemporaryDirectory() as made:
        folder = _model_folder(host, Path(made))
        if folder is None or not (folder / "tokenizer.json").exists():
            return None
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return len(tokenizer.encode(text).ids) / len(text.split())


def _model_folder(host: Host, made: Path) -> Path | None:
    if not host.real:
        return write_model_folder(made)
    if host.model is not None:
        return Path(host.model)
    noted = host.cache / "models" / f"{_DEFAULT_MODEL}.json"
    if not noted.exists():
        return None
    return noted.parent / str(json.loads(noted.read_text())["folder"])


@contextmanager
def running_place(experiment: str, host: Host, settings: Settings, folder: Path) -> Iterator[Stack]:
    """A stack with these settings.

    Raises:
        ExperimentError: such a stack can't be had here.
        StackStartError: it did not get ready.
    """
    with (
        _real(experiment, host, settings, folder)
        if host.real
        else _simulated(host, settings, folder) as stack
    ):
        yield stack


def emptied(stack: Stack) -> None:
    """No KV in any engine nor in the RAM tier, as before the first request.

    What a gateway believes to be held follows the engines' events.
    """
    stack.let_stores_end()
    for url in stack.engine_urls or (stack.engine_url,):
        _flush(url)
    if stack.tier_url is not None:
        stack.clear_ram()
    time.sleep(0.2)


def _flush(url: str) -> None:
    """An engine refuses while it works."""
    deadline = time.monotonic() + _START_S
    while not httpx.post(f"{url}/flush_cache", timeout=30, trust_env=False).is_success:
        if time.monotonic() > deadline:
            raise ExperimentError("flush", f"the engine at {url} was never idle")
        time.sleep(0.1)


@contextmanager
def _real(experiment: str, host: Host, settings: Settings, folder: Path) -> Iterator[Stack]:
    if settings.page_tokens is not None or settings.prefill_tokens is not None:
        raise ExperimentError(
            experiment,
            "`foreword up` has no option for page size or prefill budget: leave --real away, or "
            "start two engines yourself and compare them by `foreword bench compare --run`",
        )
    options = UpOptions(
        cache=host.cache,
        pool_tokens=settings.pool_tokens,
        model=host.model,
        replicas=settings.replicas,
        tiers=settings.tiers,
        ram_gb=settings.ram_gb,
        ssd_gb=0.0,  # what lies on the disk can't be cleared between two rounds
        env=_policy(settings),
    )
    with running_up(options, folder) as stack:
        yield stack


@contextmanager
def _simulated(host: Host, settings: Settings, folder: Path) -> Iterator[Stack]:
    """`foreword serve` before as many `python -m bench.engine_sim`."""
    model = write_model_folder(folder / "model")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWORD_")}
    with ExitStack() as running:
        urls = []
        for number in range(settings.replicas):
            name = f"engine-{number}"
            command = [sys.executable, "-m", "bench.engine_sim", *_simulator(host, settings, model)]
            process = running.enter_context(running_child(command, folder, name, kept))
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise StackStartError("the simulated engine", folder / f"{name}.log")
            urls.append(url)
        port = free_port()
        listed = ",".join(f'"{url}"' for url in urls)
        environment = kept | {
            "FOREWORD_HOME": str(folder / "home"),
            "FOREWORD_CACHE": str(folder / "cache"),
            "FOREWORD_ENGINE__URL": urls[0],
            "FOREWORD_REPLICAS__URLS": f"[{listed}]",
            "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
            **_policy(settings),
        }
        serve = [sys.executable, "-m", "app.serve", "--port", str(port)]
        serving = running.enter_context(running_child(serve, folder, "gateway", environment))
        gateway = f"http://127.0.0.1:{port}"
        _wait(gateway, serving, folder / "gateway.log")
        yield Stack(
            url=gateway, engine_url=urls[0], engine_urls=tuple(urls), model=_SIMULATED_MODEL
        )


def _simulator(host: Host, settings: Settings, model: Path) -> list[str]:
    options: dict[str, object] = {
        "--model-path": model,
        "--served-model-name": _SIMULATED_MODEL,
        "--port": 0,
        "--max-total-tokens": settings.pool_tokens,
        "--context-length": _SIMULATED_CONTEXT,
        "--kv-events-endpoint": "tcp://127.0.0.1:0",
        "--kv-events-replay-endpoint": "tcp://127.0.0.1:0",
        "--speedup": host.speedup,
        "--tier-tokens": settings.tier_tokens if settings.tiers else 0,
    }
    if settings.page_tokens is not None:
        options["--page-size"] = settings.page_tokens
    if settings.prefill_tokens is not None:
        options["--chunked-prefill-size"] = settings.prefill_tokens
    return [str(part) for pair in options.items() for part in pair]


def _policy(settings: Settings) -> dict[str, str]:
    return {} if settings.policy is None else {"FOREWORD_ROUTING__POLICY": settings.policy}


def _wait(url: str, gateway: "subprocess.Popen[str]", log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and gateway.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", timeout=10, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise StackStartError("the gateway", log)
