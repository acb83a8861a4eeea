"""What a replica computes before its first request: the openings of the latest prompts."""

import time

import anyio
import structlog

from app.engine import EngineClient
from app.errors import EngineError
from app.fleet.openings import Opening, Openings
from app.probes import ask

_LONGEST_S = 10.0


async def warm_up(client: EngineClient, openings: Openings) -> None:
    """Have the openings computed; takes 10 s at most, and fails nothing.

    They go to `/generate` without labels, so that no template's hit rate is paid for by them.
    """
    log, started = structlog.get_logger(engine=client.url), time.monotonic()
    done = 0
    try:
        with anyio.move_on_after(_LONGEST_S):
            for opening in openings.latest():
                await _compute(client, opening)
                done += 1
    except EngineError as error:
        log.warning("warm_up_failed", problem=str(error))
    log.info("warmed_up", openings=done, seconds=round(time.monotonic() - started, 3))


async def _compute(client: EngineClient, opening: Opening) -> None:
    """One token more than the opening: the last token's page is always computed anew."""
    ids = [*opening.token_ids, opening.token_ids[0]]
    await ask(client, ids, salt=opening.salt)
