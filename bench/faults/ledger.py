"""Which requests the ledger has."""

import asyncio
import time

import sqlalchemy as sa

from cache.tables import ledger

_POLL_S = 0.5


def open_ledger(url: str) -> sa.Engine:
    """The gateway's database, to be read only."""
    if url.startswith("postgresql://"):
        # Connected anew each time: the server goes away now and then.
        server = url.replace("postgresql://", "postgresql+psycopg://", 1)
        return sa.create_engine(server, poolclass=sa.NullPool)
    path = url.removeprefix("sqlite:///")
    return sa.create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")


async def rows_of(engine: sa.Engine, due: set[str], *, within_s: float) -> set[str]:
    """The ids that have a row; waits a while for those that have none yet."""
    deadline = time.monotonic() + within_s
    while True:
        found = await asyncio.to_thread(_ids, engine)
        if due <= found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(_POLL_S)


def _ids(engine: sa.Engine) -> set[str]:
    with engine.connect() as connection:
        return set(connection.scalars(sa.select(ledger.c.request_id)))
