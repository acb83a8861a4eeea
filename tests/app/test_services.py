"""What runs beside the requests keeps running."""

import anyio
import pytest
from structlog.testing import capture_logs

from app.background import kept_going

pytestmark = pytest.mark.anyio


async def test_a_watch_that_fails_is_told_and_begun_again() -> None:
    begun = 0
    again = anyio.Event()

    async def watch() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise LookupError("a fault that nobody thought of")
        again.set()
        await anyio.sleep_forever()

    with capture_logs() as logged:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept_going, watch)
            with anyio.fail_after(10):
                await again.wait()
            tasks.cancel_scope.cancel()
    assert [line["event"] for line in logged] == ["watch_failed"]
