"""Waiting until somebody has decided about a run's calls."""

import anyio

from app.agents.agents import Agents
from app.agents.loop import RunStatus
from app.agents.store import RunLostError

_LOOK_S = 0.5


async def decided(agents: Agents, run_id: str) -> None:
    """Returns when nothing of a run waits for a decision any more.

    Raises:
        RunLostError: it was deleted.
    """
    try:
        while True:
            found = await anyio.to_thread.run_sync(agents.store.find, run_id)
            if found is None:
                raise RunLostError(run_id)
            if found.status is not RunStatus.INTERRUPTED:
                return
            await anyio.sleep(_LOOK_S)
    except BaseException:
        agents.changed()  # nobody waits any more: its response may have been cancelled
        raise
