"""The routers that are compared live, each as its own users would start it."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.child_process import free_port, running_child
from bench.errors import StackStartError
from bench.routing.replicas import MODEL
from bench.soak.http import HttpClient

_START_S = 180.0
_CHAT_TEMPLATE = Path(__file__).parents[2] / "prompts" / "templates" / "chat.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One router.

    Attributes:
        module: what is run with `-m`; a `foreword serve` for None.
        python: of the environment that it is installed in.
        ready: path that answers 200 when requests may come.
        opening: what its client sends as the system message, so that prompts are equal at the
            engine: Foreword's template begins with it by itself.
        policy: by its own name.
    """

    name: str
    python: Path
    policy: str
    ready: str
    module: str | None = None
    arguments: tuple[str, ...] = ()
    opening: str = ""
    model: str = MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A router that answers on 127.0.0.1, and the engines behind it.

    Attributes:
        ports: of its processes; requests go to each in turn.
    """

    contender: Contender
    ports: Sequence[int]
    engine_ports: Sequence[int]


def contenders(venvs: Path) -> list[Contender]:
    """Foreword's policies, and those of its peers whose environments are there."""
    opening = yaml.safe_load(_CHAT_TEMPLATE.read_text(encoding="utf-8"))["segments"][0]["text"]
    found = [
        Contender(
            name=f"foreword {policy}", python=Path(sys.executable), policy=policy, ready="/readyz"
        )
        for policy in ("least-ttft", "round-robin")
    ]
    router = venvs / "sglang-router" / "bin" / "python"
    if router.exists():
        found.append(
            Contender(
                name="sglang-router 0.3.2 cache_aware",
                python=router,
                policy="cache_aware",
                ready="/health",
                module="sglang_router.launch_router",
                opening=opening,
            )
        )
    smg = venvs / "smg" / "bin" / "python"
    if smg.exists():
        found.append(
            Contender(
                name="smg 1.13.0 cache_aware",
                python=smg,
                policy="cache_aware",
                ready="/health",
                module="smg.launch_router",
                opening=opening,
            )
        )
    return found


@contextmanager
def running_contender(
    contender: Contender, engine_ports: Sequence[int], folder: Path
) -> Iterator[Running]:
    """Start a router before engines. Raises StackStartError: it did not get ready."""
    port, name = free_port(), contender.name.replace(" ", "-")
    urls = [f"http://127.0.0.1:{engine}" for engine in engine_ports]
    if contender.module is None:
        command = [str(contender.python), "-m", "app.serve", "--port", str(port)]
        environment = _foreword_environment(contender, urls, folder / name)
    else:
        command = [str(contender.python), "-m", contender.module, "--worker-urls", *urls]
        command += ["--host", "127.0.0.1", "--port", str(port), "--policy", contender.policy]
        command += ["--prometheus-port", str(free_port()), "--worker-startup-check-interval", "1"]
        environment = dict(os.environ)
    # They log what they do to stdout, which nobody reads: a full pipe would stop them.
    logged = ["sh", "-c", 'exec "$0" "$@" >&2', *command, *contender.arguments]
    with running_child(logged, folder, name, environment):
        if not asyncio.run(_ready(port, contender.ready)):
            raise StackStartError(contender.name, folder / f"{name}.log")
        yield Running(contender=contender, ports=[port], engine_ports=engine_ports)


@contextmanager
def running_gateways(
    contender: Contender,
    engine_ports: Sequence[int],
    folder: Path,
    *,
    gateways: int,
    redis_url: str | None,
) -> Iterator[Running]:
    """Start gateways with one database and one secret. Raises StackStartError."""
    urls = [f"http://127.0.0.1:{engine}" for engine in engine_ports]
    environment = dict(_foreword_environment(contender, urls, folder))
    if redis_url is not None:
        environment["FOREWORD_GATEWAY__REDIS_URL"] = redis_url
    ports = [free_port() for _ in range(gateways)]
    with ExitStack() as stack:
        for number, port in enumerate(ports):
            command = [str(contender.python), "-m", "app.serve", "--port", str(port)]
            name = f"gateway-{number}"
            stack.enter_context(running_child(command, folder, name, environment))
            # One after the other: the first makes the secret.
            if not asyncio.run(_ready(port, contender.ready)):
                raise StackStartError(name, folder / f"{name}.log")
        yield Running(contender=contender, ports=ports, engine_ports=engine_ports)


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """The URL of a Redis that keeps nothing. Raises StackStartError: there is no redis-server."""
    port, program = free_port(), shutil.which("redis-server")
    if program is None:
        raise StackStartError("redis-server", folder / "redis.log")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with running_child([*command, "--logfile", "redis.log"], folder, "redis", dict(os.environ)):
        yield f"redis://127.0.0.1:{port}/0"


def _foreword_environment(
    contender: Contender, urls: Sequence[str], folder: Path
) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREWORD_")}
    listed = ",".join(f'"{url}"' for url in urls)
    return kept | {
        "FOREWORD_HOME": str(folder / "home"),
        "FOREWORD_CACHE": str(folder / "cache"),
        "FOREWORD_REPLICAS__URLS": f"[{listed}]",
        "FOREWORD_ROUTING__POLICY": contender.policy,
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
    }


async def _ready(port: int, path: str) -> bool:
    client = HttpClient("127.0.0.1", port)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            if (await client.send("GET", path)).status == 200:
                client.close()
                return True
        except OSError:
            pass
        await asyncio.sleep(0.2)
    return False
