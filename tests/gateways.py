"""A real gateway on a real socket, in a thread of the test process."""

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import structlog
import uvicorn
from fastapi.routing import APIRoute

from app.agents.toolbox import OpensTools
from app.main import create_app
from app.settings import (
    EngineSettings,
    GatewaySettings,
    LogSettings,
    RetrievalSettings,
    Settings,
)
from app.wire import server_config

_START_S = 60.0
_SHUTDOWN_S = 20


def gateway_settings(home: Path, engine_url: str, **engine: object) -> Settings:
    """Settings that touch nothing but `home`."""
    return Settings(
        home=home,
        cache=home / "cache",
        gateway=GatewaySettings(port=0),
        engine=EngineSettings.model_validate({"url": engine_url, **engine}),
        retrieval=RetrievalSettings(embedder="hashing"),
        log=LogSettings(requests=False),
    )


def log_to_stdout() -> None:
    """Let loggers write where `print` writes now.

    What that would be when one is made may be the output of a command that a test looks at, and
    what another test has set may be closed.
    """
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stdout))


@contextmanager
def running_gateway(settings: Settings, servers: OpensTools | None = None) -> Iterator[str]:
    """The base URL of a gateway that has met its engine, if there is one.

    `servers` have tools of agents, in place of MCP servers.
    """
    log_to_stdout()
    here = settings.gateway.model_copy(update={"host": "127.0.0.1", "port": 0})
    settings = settings.model_copy(update={"gateway": here})
    config = server_config(create_app(settings, servers=servers), settings, shutdown_s=_SHUTDOWN_S)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="gateway")
    thread.start()
    try:
        yield _wait(server, thread)
    finally:
        server.should_exit = True
        thread.join(_START_S)
        assert not thread.is_alive(), "the gateway did not stop"


def wait_until_ready(url: str, *, within_s: float = _START_S) -> None:
    """Until the gateway would answer a question."""
    deadline = time.monotonic() + within_s
    while httpx.get(f"{url}/readyz", trust_env=False, timeout=_START_S).status_code != 200:
        assert time.monotonic() < deadline, "the gateway did not get ready"
        time.sleep(0.05)


def wait_until_followed(url: str, engine_url: str) -> None:
    """Until the gateway knows all KV events that a simulated engine has published."""
    deadline = time.monotonic() + _START_S
    while not _follows(url, engine_url):
        assert time.monotonic() < deadline, "the gateway does not follow the engine's KV events"
        time.sleep(0.02)


def wait_until_subscribed(*engine_urls: str) -> None:
    """Until nothing that simulated engines publish from now on is missed by one gateway."""
    deadline = time.monotonic() + _START_S
    for url in engine_urls:
        while httpx.get(f"{url}/simulator", trust_env=False).json()["subscriptions"] == 0:
            assert time.monotonic() < deadline, "nobody subscribed to the engine's KV events"
            time.sleep(0.02)


def _follows(url: str, engine_url: str) -> bool:
    state = httpx.get(f"{engine_url}/simulator", trust_env=False).json()
    listed = httpx.get(f"{url}/foreword/replicas", trust_env=False).json()["data"]
    (known,) = (one["cache"] for one in listed if one["url"].rstrip("/") == engine_url.rstrip("/"))
    return bool(known["event_batches"] >= state["event_batches"])


def served_routes() -> set[tuple[str, str]]:
    """Method and path of every route, as in `("GET", "/v1/files/{file_id}")`."""
    app = create_app(gateway_settings(Path("/nonexistent"), "http://127.0.0.1:1"))
    found = set[tuple[str, str]]()
    pending = list(app.routes)
    while pending:
        route = pending.pop()
        if isinstance(route, APIRoute):
            path = re.sub(r":path\}", "}", route.path)
            found |= {(method, path) for method in route.methods}
        else:
            pending += getattr(getattr(route, "original_router", route), "routes", [])
    return found


def add_collection(url: str, name: str, text: str, *, within_s: float = _START_S) -> str:
    """The id of a new collection that holds one document."""
    with httpx.Client(base_url=url, trust_env=False) as client:
        file = {"file": (f"{name}.txt", text.encode())}
        uploaded = client.post("/v1/files", files=file, data={"purpose": "assistants"}).json()
        body = {"name": name, "file_ids": [uploaded["id"]]}
        made = client.post("/v1/vector_stores", json=body).raise_for_status().json()
        path = f"/v1/vector_stores/{made['id']}"
        deadline = time.monotonic() + within_s
        while client.get(path).json()["file_counts"]["completed"] == 0:
            assert time.monotonic() < deadline, "the document was not taken in"
            time.sleep(0.02)
    return str(made["id"])


def _wait(server: uvicorn.Server, thread: threading.Thread) -> str:
    deadline = time.monotonic() + _START_S
    while not server.started:
        assert thread.is_alive(), "the gateway ended while it started"
        assert time.monotonic() < deadline, "the gateway did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    return f"http://127.0.0.1:{port}"
