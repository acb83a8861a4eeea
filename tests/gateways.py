"""A real gateway on a real socket, in a thread of the test process."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import structlog
import uvicorn

from app.main import create_app
from app.settings import EngineSettings, GatewaySettings, RetrievalSettings, Settings

_START_S = 30.0


def gateway_settings(home: Path, engine_url: str, **engine: object) -> Settings:
    """Settings that touch nothing but `home`."""
    return Settings(
        home=home,
        cache=home / "cache",
        gateway=GatewaySettings(port=0),
        engine=EngineSettings.model_validate({"url": engine_url, **engine}),
        retrieval=RetrievalSettings(embedder="hashing"),
    )


@contextmanager
def running_gateway(settings: Settings) -> Iterator[str]:
    """The base URL of a gateway that has met its engine, if there is one."""
    # What `print` would find at the time may be the output of a command that a test looks at.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stdout))
    config = uvicorn.Config(
        create_app(settings), host="127.0.0.1", port=0, log_config=None, access_log=False
    )
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
    while httpx.get(f"{url}/readyz", trust_env=False).status_code != 200:
        assert time.monotonic() < deadline, "the gateway did not get ready"
        time.sleep(0.05)


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
