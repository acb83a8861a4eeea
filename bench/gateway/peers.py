"""The gateways that are compared, each as its own manual starts it."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.child_process import free_port
from bench.errors import GatewayBenchError

_HERE = Path(__file__).parent
_LIMITS = ("REQUESTS_PER_MIN", "TOKENS_PER_MIN", "CONCURRENT", "TOKENS_PER_DAY")
_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.err crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  client_body_buffer_size 64k; keepalive_requests 100000000;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream engine {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One gateway.

    Attributes:
        command: what runs, given the folder, its port and the engine's.
        does: what it does to a request, for the report.
        environment: beside the caller's own.
        ready: path that answers 200 when it takes requests.
        make_key: makes the key that clients show, before it is started; None: it asks for none.
    """

    name: str
    version: str
    does: str
    command: Callable[[Path, int, int], list[str]]
    environment: Callable[[Path, int], Mapping[str, str]] = field(default=lambda _f, _u: {})
    ready: str = "/health"
    make_key: Callable[[Path, Mapping[str, str]], str | None] = field(default=lambda _f, _e: None)


def peers(venvs: Path, *, only: tuple[str, ...] = ()) -> list[Peer]:
    """Those asked for that can be had here; packages are installed into `venvs`, once.

    Raises:
        GatewayBenchError: one that was asked for by name can't be had.
    """
    makers: dict[str, Callable[[], Peer]] = {
        "foreword": foreword,
        "nginx": nginx,
        "sglang-router": lambda: _router(venvs, "sglang-router", "0.3.2"),
        "smg": lambda: _router(venvs, "smg", "1.13.0"),
        "litellm": lambda: _litellm(venvs),
    }
    unknown = set(only) - set(makers)
    if unknown:
        known = ", ".join(makers)
        raise GatewayBenchError(", ".join(sorted(unknown)), f"is not known; there are: {known}")
    return [make() for name, make in makers.items() if not only or name in only]


def foreword() -> Peer:
    """Ourselves with everything on: keys, limits, rendering, accounting, ledger, metrics."""

    def environment(folder: Path, upstream: int) -> Mapping[str, str]:
        return {
            "FOREWORD_HOME": str(folder / "home"),
            "FOREWORD_CACHE": str(folder / "cache"),
            "FOREWORD_ENGINE__URL": f"http://127.0.0.1:{upstream}",
            "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
            # Limits that nobody reaches, so that they are counted.
            **{f"FOREWORD_LIMITS__{name}": "1000000000" for name in _LIMITS},
            "FOREWORD_ADMISSION__IN_FLIGHT": "4096",
        }

    return Peer(
        name="foreword",
        version="this commit",
        does="keys, limits, parse, render to token ids, hash, route, account, ledger, metrics",
        command=lambda _folder, port, _up: [sys.executable, "-m", "app.serve", "--port", str(port)],
        environment=environment,
        ready="/readyz",
        make_key=_foreword_key,
    )


def _foreword_key(_folder: Path, environment: Mapping[str, str]) -> str:
    """An admin's key: the first of a deployment has to be one.

    Raises:
        GatewayBenchError: none could be made.
    """
    program = str(Path(sys.executable).with_name("foreword"))
    command = [program, "keys", "create", "bench", "--role", "admin", "--format", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GatewayBenchError("foreword", f"makes no key: {done.stderr[-500:]}")
    return str(json.loads(done.stdout)["key"])


def nginx() -> Peer:
    """The floor: it passes bytes on.

    Raises:
        GatewayBenchError: it isn't installed.
    """
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise GatewayBenchError("nginx", "is not installed: apt-get install nginx-light")
    told = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr

    def command(folder: Path, port: int, upstream: int) -> list[str]:
        config = folder / "nginx.conf"
        config.write_text(_NGINX.format(folder=folder, port=port, upstream=upstream))
        return [program, "-p", str(folder), "-c", str(config)]

    return Peer(
        name="nginx",
        version=told.rpartition("/")[2].split()[0],
        does="nothing: passes bytes on",
        command=command,
        ready="/ready",
    )


def _router(venvs: Path, package: str, version: str) -> Peer:
    """sglang-router and its successor smg, with their cache-aware policy."""
    folder = _installed(venvs, package)

    def command(_folder: Path, port: int, upstream: int) -> list[str]:
        return [
            str(folder / "bin" / package), "launch",
            "--worker-urls", f"http://127.0.0.1:{upstream}",
            "--policy", "cache_aware",
            "--host", "127.0.0.1", "--port", str(port),
            "--prometheus-port", str(free_port()),
            "--log-level", "error",
        ]  # fmt: skip

    return Peer(
        name=package,
        version=version,
        does="parse, match the prompt's text in a tree, route, metrics",
        command=command,
    )


def _litellm(venvs: Path) -> Peer:
    folder = _installed(venvs, "litellm")
    master_key = f"sk-{secrets.token_hex(24)}"

    def command(where: Path, port: int, upstream: int) -> list[str]:
        model = {
            "model_name": "bench",
            "litellm_params": {
                "model": "openai/bench",
                "api_base": f"http://127.0.0.1:{upstream}/v1",
                "api_key": "none",
            },
        }
        config = where / "config.yaml"
        config.write_text(json.dumps({"model_list": [model]}))  # JSON is YAML
        program = str(folder / "bin" / "litellm")
        return [program, "--config", str(config), "--port", str(port), "--num_workers", "1"]

    return Peer(
        name="litellm",
        version="1.108.7",
        does="a key, parse, translate, price, callbacks; no database",
        command=command,
        environment=lambda _folder, _up: {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MASTER_KEY": master_key,
        },
        make_key=lambda _folder, _environment: master_key,
        ready="/health/liveliness",
    )


def _installed(venvs: Path, package: str) -> Path:
    """A virtual environment with the package as it is pinned; made where there is none.

    Raises:
        GatewayBenchError: pip can't install it.
    """
    folder, pinned = venvs / package, _HERE / "requirements" / f"{package}.txt"
    if (folder / "bin" / package).exists():
        return folder
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--requirement", str(pinned)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GatewayBenchError(package, f"could not be installed: {done.stderr[-500:]}")
    return folder
