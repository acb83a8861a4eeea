"""Fixtures that every test may use. Nothing here starts unless a test asks for it.

The real engine, its tiers and Redis are started once a run, with a tiny random model; tests are
kept apart by their salts.
"""

import functools
import gc
import json
import os
import signal
import ssl
import subprocess
import sys
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import hypothesis
import pytest
import structlog

from app.stack.deploy_files import find_deploy_files
from app.stack.environment import ensure_environment
from app.stack.environment_plan import EngineEnvironment
from app.stack.paths import CachePaths
from app.stack.ports import free_ports
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import RunningStack, engine_plan, start_stack
from cache.tiers import TierSettings
from tests.postgres_server import PostgresServer, running_postgres
from tests.tokenizer_packages import RealTokenizers

TINY_POOL_TOKENS = 12_000
_PATIENCE_S = 60.0

# How long one example takes says more about the machine's load than about the code. In CI the
# examples are always the same: what fails there is the change, not luck.
hypothesis.settings.register_profile("foreword", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.register_profile(
    "few", parent=hypothesis.settings.get_profile("foreword"), max_examples=40
)
hypothesis.settings.load_profile("foreword")


def pytest_configure() -> None:
    """Children must start with signals that work, also in a run under `nohup` or in the background.

    An ignored signal is inherited by a program that is started; a handler, even one that does
    nothing, is not. And what a child compiles it keeps: else each start of the engine takes twice
    as long.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made, and all of them stay: looking for garbage is a fifth of the work
    meanwhile, and looking through them ever after is some of it, too.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def open_log() -> None:
    """Loggers write to what is open: what an earlier test had them write to may be closed."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stdout))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's own reaches a test."""
    for name in list(os.environ):
        if name.startswith("FOREWORD_") and not name.startswith("FOREWORD_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _roots_are_read_once() -> Iterator[None]:
    """A client reads all certificate authorities when it is made, also one that speaks plain HTTP.

    That costs more than most tests do, so clients that ask for nothing of their own share what was
    read.
    """

    @functools.cache
    def made(trust_env: bool, file: str | None, folder: str | None) -> ssl.SSLContext:
        return httpx.create_ssl_context(trust_env=trust_env)

    def shared(
        verify: ssl.SSLContext | bool = True, cert: None = None, trust_env: bool = True
    ) -> ssl.SSLContext:
        if verify is not True or cert is not None:
            return httpx.create_ssl_context(verify, cert, trust_env)
        return made(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", shared)
        yield


@pytest.fixture(scope="session", autouse=True)
def _clients_are_patient() -> Iterator[None]:
    """httpx gives up after five seconds by itself; a machine with other work may stall for longer.

    A test whose subject is that nobody waits says how long.
    """
    usual = httpx.Client.__init__.__kwdefaults__["timeout"]
    with pytest.MonkeyPatch.context() as patch:
        for phase in ("connect", "read", "write", "pool"):
            patch.setattr(usual, phase, _PATIENCE_S)
        yield


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL; each test takes databases of its own. Leave it running."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def engine_cache() -> Path:
    """FOREWORD_CACHE of the run: where the engine's environment is installed, once."""
    folder = os.environ.get("FOREWORD_TEST_CACHE")
    if folder is None:
        pytest.fail("FOREWORD_TEST_CACHE is not set: run the engine's tests by `make test`")
    return Path(folder)


@pytest.fixture(scope="session")
def real_tokenizers(engine_cache: Path) -> RealTokenizers:
    """Tokenizers and chat templates of well-known models, each loaded when it is asked for."""
    return RealTokenizers(engine_cache)


@pytest.fixture(scope="session")
def engine_environment(engine_cache: Path) -> EngineEnvironment:
    """SGLang and LMCache with the plugins; installed by the first test of a clone that asks."""
    settings = StackSettings(home=engine_cache, cache=engine_cache, base_env=dict(os.environ))
    return ensure_environment(engine_plan(settings, find_deploy_files()), say=print)


@pytest.fixture(scope="session")
def engine_python(engine_environment: EngineEnvironment) -> Path:
    """The interpreter that has SGLang."""
    return engine_environment.python


@pytest.fixture(scope="session")
def tiny_model(engine_cache: Path, engine_python: Path) -> Path:
    """A model of random weights: fast, senseless, always the same."""
    folder = CachePaths(engine_cache).models / "tiny"
    if not (folder / "config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        command = [engine_python, "-m", "foreword_cpu.tiny_model", folder]
        subprocess.run(command, check=True, timeout=300)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RealEngine:
    """The running engine, as the contract suites want it."""

    url: str
    model_path: Path
    stack: RunningStack = field(repr=False)

    def salt(self) -> str:
        """A cache salt that nobody has used."""
        return uuid.uuid4().hex


def _replayed_events() -> dict[str, object]:
    """KV events that can be asked for again, as the contract wants them."""
    events, replay = free_ports(2)
    bound = {"endpoint": f"tcp://127.0.0.1:{events}", "bind": True, "topic": "kv"}
    return bound | {"publisher": "zmq", "replay_endpoint": f"tcp://127.0.0.1:{replay}"}


@pytest.fixture(scope="session")
def engine(
    engine_cache: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealEngine]:
    """Real SGLang with LMCache (RAM, SSD, Redis) and the guard, on the tiny model."""
    settings = StackSettings(
        home=tmp_path_factory.mktemp("stack"),
        cache=engine_cache,
        base_env=dict(os.environ),
        model=str(tiny_model),
        engine=EngineOptions(
            pool_tokens=TINY_POOL_TOKENS,
            arguments=("--kv-events-config", json.dumps(_replayed_events())),
        ),
        tiers=TierSettings(ram_gb=0.5, ssd_gb=0.5),
        redis=True,
        redis_gb=0.25,
        gateway=False,
        cpu=True,
    )
    with start_stack(settings, say=print) as stack:
        yield RealEngine(url=stack.engine_url, model_path=tiny_model, stack=stack)
