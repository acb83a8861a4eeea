"""How the gateway is served: uvicorn's configuration, with the guarded protocol."""

import resource
from collections import Counter
from functools import partial
from typing import cast

import uvicorn
from fastapi import FastAPI

from app.lane.lane import Lane
from app.settings import Settings
from app.wire.protocol import GuardedProtocol

_BACKLOG = 2048


def server_config(app: FastAPI, settings: Settings, *, shutdown_s: int) -> uvicorn.Config:
    """uvicorn's configuration for `app`; what was refused is counted in `app.state.refused`.

    `shutdown_s` is the longest that a shutdown waits for answers under way.
    """
    refused: Counter[str] = Counter()
    app.state.refused = refused
    app.state.lane = None  # until the services are open

    def lane() -> Lane | None:
        opened = app.state.lane
        return opened if isinstance(opened, Lane) else None

    protocol = partial(GuardedProtocol, limits=settings.wire, refused=refused, lane=lane)
    return uvicorn.Config(
        app,
        host=settings.gateway.host,
        port=settings.gateway.port,
        # uvicorn calls it with keywords, and takes any callable though it says "class".
        http=cast(type[GuardedProtocol], protocol),
        ws="none",
        backlog=_BACKLOG,
        log_config=None,
        access_log=False,
        # Addresses from headers would be believed only from a proxy, and nothing needs them.
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.wire.keep_alive_s,
        timeout_graceful_shutdown=shutdown_s,
    )


def raise_file_limit() -> None:
    """Let the process have as many sockets and files open as it may: the usual limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
