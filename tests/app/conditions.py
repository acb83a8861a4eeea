"""Waiting in tests for what another task or thread is about to do."""

import time
from collections.abc import Callable

import anyio


async def becomes(true: Callable[[], bool], *, within_s: float = 60.0) -> bool:
    """Whether it comes true in time; asked again and again, since nothing tells of it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if true():
            return True
        await anyio.sleep(0.01)
    return true()
