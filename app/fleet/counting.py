"""What all engines counted, and how fast they compute."""

from collections.abc import Sequence
from statistics import median

import anyio

from app.replica import Replica
from cache.engine_metrics import EngineDelta, combine
from cache.prefill_speed import PrefillSpeed


def median_speed(replicas: Sequence[Replica]) -> PrefillSpeed | None:
    """The median of the replicas' prefill speeds; None until one has computed enough."""
    speeds = [r.speed.speed for r in replicas if r.fits and r.speed.speed is not None]
    if len(speeds) <= 1:
        return speeds[0] if speeds else None
    return PrefillSpeed(
        tokens_per_s=median(speed.tokens_per_s for speed in speeds),
        tokens=sum(speed.tokens for speed in speeds),
    )


async def counted(
    replicas: Sequence[Replica], gone: Sequence[EngineDelta]
) -> tuple[EngineDelta, ...]:
    """What the engines have counted until now, the longest window first; none if one can't say.

    Of several replicas only the longest: their shorter ones begin at different moments. `gone` is
    what replicas counted that are no more.
    """
    silent: list[Replica] = []

    async def advance(replica: Replica) -> None:
        if await replica.counters.advance() is None:
            silent.append(replica)

    async with anyio.create_task_group() as tasks:
        for replica in replicas:
            tasks.start_soon(advance, replica)
    windows = [r.counters.windows for r in replicas]
    if len(silent) == len(windows) or any(r.seen for r in silent):
        return ()
    if len(windows) == 1 and not gone:
        return windows[0]
    firsts = [each[0] for each in windows if each]
    return (combine([*firsts, *gone]),) if firsts else ()
