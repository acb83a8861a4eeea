"""The tier server's own routes over plain HTTP: a small stand-in, since LMCache has no place here.

The real ones are tested in `tests/deploy/guard` and end to end.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

_STATUS: dict[str, Any] = {
    "instance": "1",
    "chunk_tokens": 64,
    "chunk_bytes": 98304,
    "ram": {
        "used_bytes": 0,
        "capacity_bytes": 10**9,
        "loads": {"chunks": 0, "bytes": 0, "seconds": 0.0},
    },
    "adapters": [],
    "evictions": {"ram": 0, "ssd": 0, "redis": 0},
    "salts": {"keys": 0, "destroyed": 0},
}


@dataclass
class TierServer:
    """What it was asked, and what it answers: each load was of tokens up to `stop`, from `tier`."""

    url: str = ""
    tier: str = "ssd"
    stop: int = 64
    delay_s: float = 0.0
    adapters: list[dict[str, object]] = field(default_factory=list)
    evictions: dict[str, int] = field(default_factory=dict)
    destroyed: list[str] = field(default_factory=list)
    instance: str = "1"
    asked: list[str] = field(default_factory=list)

    def status(self, _: Request) -> Response:
        self._delay()
        told = {"adapters": self.adapters, "evictions": _STATUS["evictions"] | self.evictions}
        return JSONResponse(_STATUS | told | {"instance": self.instance})

    def load(self, request: Request) -> Response:
        self.asked.append(request.path_params["rid"])
        self._delay()
        runs = [{"tier": self.tier, "start": 0, "stop": self.stop}]
        return JSONResponse({"start": 0, "stop": self.stop, "runs": runs})

    def _delay(self) -> None:
        """For so long as `delay_s` says meanwhile."""
        began = time.monotonic()
        while time.monotonic() - began < self.delay_s:
            time.sleep(0.01)

    def destroy(self, request: Request) -> Response:
        salt = request.path_params["salt"]
        self.destroyed.append(salt)
        return JSONResponse({"salt": salt, "destroyed": True, "ram_chunks": 0})


def adapter(
    name: str,
    *,
    state: str = "ok",
    reason: str | None = None,
    rejected: int = 0,
    failed_stores: int = 0,
) -> dict[str, object]:
    """One adapter's part of the status."""
    counts = {"tasks": 0, "chunks": 0, "bytes": 0, "seconds": 0.0, "failed": 0}
    return {
        "name": name,
        "enabled": True,
        "state": state,
        "reason": reason,
        "lookups": {"tasks": 0, "seconds": 0.0, "late": 0, "skipped": 0},
        "loads": counts | {"late": 0},
        "stores": counts | {"failed": failed_stores, "skipped": 0},
        "rejected": rejected,
        "used_bytes": 0,
        "capacity_bytes": 0,
    }


@contextmanager
def running_tier_server(made: TierServer, *, port: int = 0) -> Iterator[TierServer]:
    """`made` on a socket of its own."""
    app = Starlette(
        routes=[
            Route("/foreword/status", made.status),
            Route("/foreword/loads/{rid}", made.load),
            Route("/foreword/salts/{salt}", made.destroy, methods=["DELETE"]),
        ]
    )
    listener = socket.create_server(("127.0.0.1", port))
    made.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), name="tier-server")
    thread.start()
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
