"""Two engines behind one gateway: engines, Redis and PostgreSQL die and hang while clients ask.

Every request is answered, or fails with OpenAI's error within its time; none is lost and none
hangs; each one that reached the pipeline has its ledger row; and all is well again afterwards. The
engines are simulated; `python -m bench.faults` does the same and more to real ones.
"""

from pathlib import Path

import pytest

from bench.faults.catalogue import FAULTS
from bench.faults.judge import Verdict
from bench.faults.run import Suite
from bench.faults.traffic import Traffic
from bench.faults.world import WorldOptions, running_world

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.timeout(900)]

CLIENTS, MOST_TOKENS = 12, 96


async def struck(options: WorldOptions, *names: str) -> dict[str, Verdict]:
    """What became of the requests that met these faults, one after the other."""
    faults = [fault for fault in FAULTS if fault.name in names]
    async with running_world(options) as world:
        traffic = Traffic(world.url, world.tenants, clients=CLIENTS, most_tokens=MOST_TOKENS)
        async with traffic.flowing():
            verdicts, skipped = await Suite(world, traffic, say=print).all(faults)
    assert not skipped
    return {verdict.name: verdict for verdict in verdicts}


async def test_engines_and_redis_may_die_and_hang(tmp_path: Path) -> None:
    told = await struck(
        WorldOptions(folder=tmp_path), "engine-killed", "engine-hung", "redis-killed"
    )

    assert [verdict.problems for verdict in told.values()] == [[], [], []]
    assert sum(told["engine-killed"].hit.values()) > 0
    assert not told["redis-killed"].failed


async def test_postgresql_may_crash(tmp_path: Path) -> None:
    told = await struck(WorldOptions(folder=tmp_path, postgres=True), "postgres-crashed")

    (verdict,) = told.values()
    assert verdict.problems == []
    assert verdict.rows_missing == verdict.rows_dropped == 0
