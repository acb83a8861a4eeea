"""The tier server's routes in front of a simulated engine's own tier.

The simulator keeps what was evicted in one place; this says which of RAM, SSD and Redis it would
have come from, by what was cleared and switched off.
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

CHUNK_TOKENS = 64
FOUND_TOKENS = 3 * CHUNK_TOKENS


@dataclass
class ProofTier:
    """What it was asked, and where its adapters stand.

    `hold_s` is how long it takes to say where a load came from while an adapter is off.
    """

    url: str = ""
    adapters: dict[str, str | None] = field(default_factory=lambda: {"ssd": None, "redis": None})
    serde: str | None = None
    cleared: bool = False
    destroyed: list[str] = field(default_factory=list)
    switches: list[tuple[str, bool]] = field(default_factory=list)
    statuses: int = 0
    hold_s: float = 0.0

    def status(self, _: Request) -> Response:
        self.statuses += 1
        loads = {"chunks": 0, "bytes": 0, "seconds": 0.0}
        return JSONResponse(
            {
                "instance": "1",
                "chunk_tokens": CHUNK_TOKENS,
                "chunk_bytes": 1000,
                "ram": {"used_bytes": self.statuses, "capacity_bytes": 10**9, "loads": loads},
                "adapters": [self._adapter(name) for name in self.adapters],
                "evictions": {},
                "salts": {"keys": 0, "destroyed": 0},
            }
        )

    def _adapter(self, name: str) -> dict[str, Any]:
        """Its counters grow with each look: 10 chunks stored in 200 bytes each, and one loaded."""
        counts = {"tasks": 0, "bytes": 0, "failed": 0}
        off, looks = self.adapters[name], self.statuses
        return {
            "name": name,
            "enabled": off is None,
            "state": "ok" if off is None else "off",
            "reason": off,
            "lookups": {"tasks": 0, "seconds": 0.0, "late": 0, "skipped": 0},
            "loads": counts | {"chunks": looks, "seconds": looks * 0.002, "late": 0},
            "stores": counts | {"chunks": 10 * looks, "seconds": 0.0, "skipped": 0},
            "rejected": 0,
            "used_bytes": 2000 * looks,
            "capacity_bytes": 0,
        }

    def load(self, _: Request) -> Response:
        on = [name for name, off in self.adapters.items() if off is None]
        if len(on) < len(self.adapters):
            time.sleep(self.hold_s)
        runs = [{"tier": on[0] if self.cleared else "ram", "start": 0, "stop": FOUND_TOKENS}]
        return JSONResponse({"start": 0, "stop": FOUND_TOKENS, "runs": runs})

    async def switch(self, request: Request) -> Response:
        name, body = request.path_params["name"], await request.json()
        self.adapters[name] = None if body["enabled"] else body["reason"]
        self.switches.append((name, body["enabled"]))
        return JSONResponse({"name": name, **body})

    def destroy(self, request: Request) -> Response:
        self.destroyed.append(request.path_params["salt"])
        return JSONResponse({"destroyed": True})

    def clear(self, _: Request) -> Response:
        self.cleared = True
        return JSONResponse({"status": "ok"})

    def config(self, _: Request) -> Response:
        kwargs = {} if self.serde is None else {"inner": self.serde}
        serde = f"SerdeConfig(type='foreword_aead', kwargs={kwargs})"
        adapters = [{"serde_config": serde} for _ in self.adapters]
        return JSONResponse({"storage_manager": {"l2_adapter_config": {"adapters": adapters}}})


@contextmanager
def running_proof_tier(made: ProofTier) -> Iterator[ProofTier]:
    """`made` on a socket of its own."""
    app = Starlette(
        routes=[
            Route("/foreword/status", made.status),
            Route("/foreword/loads/{rid}", made.load),
            Route("/foreword/adapters/{name}", made.switch, methods=["PUT"]),
            Route("/foreword/salts/{salt}", made.destroy, methods=["DELETE"]),
            Route("/cache/clear", made.clear, methods=["POST"]),
            Route("/config", made.config),
        ]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    made.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), name="proof-tier")
    thread.start()
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
