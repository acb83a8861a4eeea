"""A deployment to be hurt: two engines, a gateway, and what stands around them."""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from bench.child_process import free_port, running_child
from bench.errors import FaultSuiteError
from bench.faults.machine import Clock, build_clock, can_cut, small_disk
from bench.faults.processes import Child
from bench.faults.servers import (
    Postgres,
    Redis,
    running_postgres,
    running_redis,
)
from bench.faults.traffic import Tenant
from bench.micro.words import sentences
from bench.soak.model_folder import CONTEXT_TOKENS, write_model_folder

ENGINES = ("engine-0", "engine-1")
_START_S = 600.0
_DISK_MB = 192
_INGEST_S = 60.0
_SIMULATED_RUNNING = 4
# A real engine on a few cores that others use too needs the longer one.
_FIRST_BYTE_S, _SIMULATED_FIRST_BYTE_S = 40, 20
TENANTS = ("acme", "bolt", "crow")


class Parts(Protocol):
    """The processes of a deployment, by their names."""

    restarts_itself: bool

    def pid(self, name: str) -> int | None:
        """None while it doesn't run, or isn't there at all."""
        ...

    def port(self, engine: str) -> int:
        """Where an engine listens."""
        ...

    def start(self, name: str) -> None:
        """Start one that ended, where nobody else does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the faults get to see.

    Attributes:
        operator: asks as the operator, in the gateway's own HTTP.
        small_home: the home folder is a small file system of its own.
        can_cut: packets between gateway and engines may be dropped.
        first_byte_s: how long the gateway waits for an engine's first byte.
    """

    url: str
    home: Path
    parts: Parts
    operator: httpx.AsyncClient = field(repr=False)
    tenants: list[Tenant] = field(repr=False)
    database_url: str
    redis: Redis | None
    postgres: Postgres | None
    clock: Clock | None
    small_home: bool
    can_cut: bool
    first_byte_s: float

    @property
    def gateway_port(self) -> int:
        return httpx.URL(self.url).port or 80

    async def busiest(self) -> str:
        """The engine with most requests."""
        told = (await self.operator.get("/foreword/replicas")).json()
        busiest = max(told["data"], key=lambda one: int(one["load"]["in_flight"]))
        return str(busiest["name"])

    async def readiness(self) -> dict[str, Any]:
        """What /readyz says to an operator; with `problem` where it says nothing."""
        try:
            told: dict[str, Any] = (await self.operator.get("/readyz", timeout=5)).json()
        except (httpx.HTTPError, ValueError) as error:
            return {"status": "unknown", "reasons": [], "replicas": {}, "problem": repr(error)}
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """Which deployment.

    Attributes:
        folder: its state and logs.
        cache: where the engine is installed; None: engines are simulated.
        postgres: the database is PostgreSQL instead of SQLite.
    """

    folder: Path
    cache: Path | None = None
    model: str | None = None
    postgres: bool = False
    pool_tokens: int = 12_000


@asynccontextmanager
async def running_world(options: WorldOptions) -> AsyncIterator[World]:
    """All of it, with keys and documents of three tenants.

    Raises:
        BenchError: a part of it did not start.
    """
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        postgres = opened.enter_context(running_postgres()) if options.postgres else None
        redis = opened.enter_context(running_redis(folder))
        clock, home = build_clock(folder), folder / "home"
        small = opened.enter_context(small_disk(home, _DISK_MB))
        first_byte_s = _SIMULATED_FIRST_BYTE_S if options.cache is None else _FIRST_BYTE_S
        env = gateway_environment(redis, postgres, first_byte_s=first_byte_s)
        env |= clock.env if clock else {}
        start = _simulated if options.cache is None else _real
        url, parts = start(opened, options, home, env)
        async with AsyncExitStack() as clients:
            operator = await _operator(clients, url)
            tenants = [await _tenant(operator, url, name) for name in TENANTS]
            yield World(
                url=url,
                home=home,
                parts=parts,
                operator=operator,
                tenants=tenants,
                database_url=postgres.url if postgres else f"sqlite:///{home / 'foreword.db'}",
                redis=redis,
                postgres=postgres,
                clock=clock,
                small_home=small,
                can_cut=can_cut(),
                first_byte_s=first_byte_s,
            )


def gateway_environment(
    redis: Redis | None, postgres: Postgres | None, *, first_byte_s: int
) -> dict[str, str]:
    """None of the caller's own settings; waits are short, so that a run is. `LIMIT_S` is theirs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWORD_")}
    kept |= {
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
        "FOREWORD_ENGINE__CONNECT_TIMEOUT_S": "2",
        "FOREWORD_ENGINE__FIRST_BYTE_TIMEOUT_S": str(first_byte_s),
        "FOREWORD_ENGINE__BETWEEN_BYTES_TIMEOUT_S": "15",
        "FOREWORD_ENGINE__SILENT_S": "12",
        "FOREWORD_ADMISSION__LONGEST_WAIT_S": "15",
        "FOREWORD_WIRE__HEAD_S": "3",
        "FOREWORD_WIRE__BODY_WINDOW_S": "3",
        # Never reached, but counted, so that Redis is asked.
        "FOREWORD_LIMITS__REQUESTS_PER_MIN": "100000",
        "FOREWORD_LIMITS__TOKENS_PER_MIN": "100000000",
        "FOREWORD_TIERS__BREAK_EVEN": "warn",
        "NO_PROXY": "*",
    }
    if redis is not None:
        kept["FOREWORD_GATEWAY__REDIS_URL"] = redis.url
    if postgres is not None:
        kept["FOREWORD_DATABASE__URL"] = postgres.url
    return kept


class SimulatedParts:
    """Two simulators and `foreword serve`."""

    restarts_itself = False

    def __init__(self, children: Mapping[str, Child], ports: Mapping[str, int]) -> None:
        self._children = children
        self._ports = ports

    def pid(self, name: str) -> int | None:
        child = self._children.get(name)
        return None if child is None else child.pid

    def port(self, engine: str) -> int:
        return self._ports[engine]

    def start(self, name: str) -> None:
        self._children[name].start()


class RealParts:
    """What `foreword up` runs and starts again."""

    restarts_itself = True

    def __init__(self, stack_file: Path) -> None:
        self._file = stack_file

    def pid(self, name: str) -> int | None:
        pid: int | None = self._told()["processes"].get(name, {}).get("pid")
        return pid

    def port(self, engine: str) -> int:
        port = httpx.URL(self._told()["engine_urls"][ENGINES.index(engine)]).port
        assert port is not None
        return port

    def start(self, name: str) -> None:
        """The supervisor does."""

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._file.read_text())
        return told


def _simulated(
    opened: ExitStack, options: WorldOptions, home: Path, env: Mapping[str, str]
) -> tuple[str, Parts]:
    folder = options.folder.resolve()
    model = write_model_folder(folder / "model")
    ports = {name: free_port() for name in (*ENGINES, "gateway")}
    children = {
        name: Child(_simulator_command(model, ports[name]), folder, name, env=env)
        for name in ENGINES
    }
    urls = [f"http://127.0.0.1:{ports[name]}" for name in ENGINES]
    own = {
        "FOREWORD_HOME": str(home),
        "FOREWORD_CACHE": str(folder / "cache"),
        "FOREWORD_REPLICAS__URLS": json.dumps(urls),
    }
    serve = [sys.executable, "-m", "app.serve", "--port", str(ports["gateway"])]
    children["gateway"] = Child(serve, folder, "gateway", env={**env, **own})
    for child in children.values():
        opened.callback(child.stop)
        child.start()
    return f"http://127.0.0.1:{ports['gateway']}", SimulatedParts(children, ports)


def _simulator_command(model: Path, port: int) -> list[str]:
    settings = {
        "--model-path": model,
        "--served-model-name": "faults",
        "--port": port,
        "--max-total-tokens": 60_000,
        "--context-length": CONTEXT_TOKENS,
        # So few that some requests always wait in the engine.
        "--max-running-requests": _SIMULATED_RUNNING,
        "--kv-events-endpoint": f"tcp://127.0.0.1:{free_port()}",
        "--kv-events-replay-endpoint": f"tcp://127.0.0.1:{free_port()}",
    }
    pairs = [str(part) for pair in settings.items() for part in pair]
    return [sys.executable, "-m", "bench.engine_sim", *pairs, "--label", "template"]


def _real(
    opened: ExitStack, options: WorldOptions, home: Path, env: Mapping[str, str]
) -> tuple[str, Parts]:
    assert options.cache is not None
    command = [
        str(Path(sys.executable).with_name("foreword")), "up", "--cpu", "--port", "0",
        "--replicas", str(len(ENGINES)), "--home", str(home),
        "--cache", str(options.cache.resolve()), "--pool-tokens", str(options.pool_tokens),
        "--ram-gb", "0.5", "--ssd-gb", "0.05", "--redis", "--redis-gb", "0.25",
        *(["--model", _model(options.model)] if options.model else []),
    ]  # fmt: skip
    folder, facts = options.folder.resolve(), home / "run" / "stack.json"
    process = opened.enter_context(running_child(command, folder, "stack", env))
    deadline = time.monotonic() + _START_S
    while True:
        with suppress(OSError, json.JSONDecodeError):
            told = json.loads(facts.read_text())
            if told["ready"]:
                return told["url"], RealParts(facts)
        if process.poll() is not None or time.monotonic() > deadline:
            raise FaultSuiteError("`foreword up`", f"did not start; see {folder / 'stack.log'}")
        time.sleep(0.2)


def _model(model: str) -> str:
    """A folder by its whole path, since the stack runs in a folder of its own; or a name."""
    folder = Path(model)
    return str(folder.resolve()) if folder.is_dir() else model


async def _operator(clients: AsyncExitStack, url: str) -> httpx.AsyncClient:
    """A client with the first key, of a gateway that is ready."""
    client = await clients.enter_async_context(
        httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)
    )
    deadline = time.monotonic() + _START_S
    while not await _all_ready(client):
        if time.monotonic() > deadline:
            raise FaultSuiteError("the gateway", "was not ready in time")
        await asyncio.sleep(0.2)
    client.headers["authorization"] = f"Bearer {await _key(client, 'ops', 'admin')}"
    return client


async def _all_ready(client: httpx.AsyncClient) -> bool:
    with suppress(httpx.TransportError):
        told = (await client.get("/readyz")).json()
        replicas = told.get("replicas", {}).values()
        return len(replicas) == len(ENGINES) and all(r["state"] == "ready" for r in replicas)
    return False


async def _key(client: httpx.AsyncClient, tenant: str, role: str) -> str:
    made = await client.post("/foreword/keys", json={"tenant": tenant, "role": role})
    return str(_checked(made)["key"])


async def _tenant(operator: httpx.AsyncClient, url: str, name: str) -> Tenant:
    """A key, and a collection with one document."""
    key = await _key(operator, name, "user")
    text = sentences(random.Random(name), 3_000)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=30, trust_env=False
    ) as client:
        file = {"file": (f"{name}.txt", text.encode())}
        uploaded = await client.post("/v1/files", files=file, data={"purpose": "assistants"})
        body = {"name": name, "file_ids": [_checked(uploaded)["id"]]}
        store = _checked(await client.post("/v1/vector_stores", json=body))["id"]
        deadline = time.monotonic() + _INGEST_S
        while _checked(await client.get(f"/v1/vector_stores/{store}"))["file_counts"][
            "in_progress"
        ]:
            if time.monotonic() > deadline:
                raise FaultSuiteError("the gateway", "did not take in a document in time")
            await asyncio.sleep(0.1)
    return Tenant(name=name, key=key, store=store)


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if not answer.is_success:
        raise FaultSuiteError("the gateway", f"answered {answer.status_code}: {answer.text[:300]}")
    told: dict[str, Any] = answer.json()
    return told
