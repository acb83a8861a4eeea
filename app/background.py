"""What runs beside the requests, for ever."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import structlog

_AGAIN_S = 1.0

Watch = Callable[[], Coroutine[Any, Any, None]]


async def kept_going(watch: Watch) -> None:
    """Run a watch for ever; a fault in one is logged and takes neither the others nor requests."""
    while True:
        try:
            await watch()
        except Exception:  # noqa: BLE001 - the boundary of a background task
            structlog.get_logger().exception("watch_failed", watch=watch.__qualname__)
        await anyio.sleep(_AGAIN_S)
