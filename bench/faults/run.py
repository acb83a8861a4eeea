"""One fault after the other on one deployment, under steady traffic."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bench.faults.catalogue import Fault
from bench.faults.judge import Times, Verdict, judge, rows_due
from bench.faults.ledger import open_ledger, rows_of
from bench.faults.outcomes import HUNG_S
from bench.faults.traffic import Traffic
from bench.faults.world import World
from bench.soak.samples import metric

_WARM_S = 6.0
_STEADY_S = 3.0
_POLL_S = 0.2
_WHOLE_S = 120.0
_ROWS_S = 20.0
# It is told for good: what was lost isn't found any more.
_STAYS = "KV events were lost"
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A fault that this deployment can't have."""

    name: str
    why: str


class Suite:
    """Strikes one deployment.

    Attributes:
        reasons: what /readyz named before anything was done, figures aside.
    """

    def __init__(self, world: World, traffic: Traffic, *, say: Say) -> None:
        self._world = world
        self._traffic = traffic
        self._say = say
        self._ledger: sa.Engine = open_ledger(world.database_url)
        self.reasons: set[str] = set()
        self._dropped = 0
        self._failovers = 0.0

    async def all(self, faults: Sequence[Fault]) -> tuple[list[Verdict], list[Skipped]]:
        """Each of them that can be done here."""
        await asyncio.sleep(_WARM_S)
        self.reasons = _reasons(await self._world.readiness())
        await self._metrics()
        verdicts, skipped = [], []
        for fault in faults:
            if (why := fault.hinders(self._world)) is not None:
                skipped.append(Skipped(fault.name, why))
                self._say(f"{fault.name}: skipped, {why}")
                continue
            verdict = await self._one(fault)
            verdicts.append(verdict)
            self._say(_line(verdict))
        self._ledger.dispose()
        return verdicts, skipped

    async def _one(self, fault: Fault) -> Verdict:
        first, hit = len(self._traffic.asked), await self._hit()
        struck = time.monotonic()
        problems = await fault.strike(self._world)
        mended = time.monotonic()
        whole, left = await self._whole()
        if left:
            problems = [*problems, f"/readyz still says: {'; '.join(sorted(left))[:600]}"]
        # What was under way when it was mended has ended, one way or the other.
        await self._ended(mended)
        await asyncio.sleep(_STEADY_S)
        asked = self._traffic.asked[first:]
        rows = await rows_of(self._ledger, rows_due(asked), within_s=_ROWS_S)
        dropped, failovers = self._dropped, self._failovers
        await self._metrics()
        return judge(
            fault.name,
            fault.what,
            asked,
            codes=fault.codes,
            times=Times(struck=struck, mended=mended, whole=whole),
            hit=hit,
            rows=rows,
            dropped=self._dropped - dropped,
            failed_over=int(self._failovers - failovers),
            problems=problems,
        )

    async def _hit(self) -> dict[str, int]:
        """Requests under way; waits a moment for a stream among them, and for one that waits."""
        for _ in range(100):
            under_way = self._traffic.under_way()
            if all(under_way.values()):
                break
            await asyncio.sleep(0.02)
        return under_way

    async def _whole(self) -> tuple[float | None, set[str]]:
        """When all replicas were ready and nothing new was wrong; else what still is."""
        deadline = time.monotonic() + _WHOLE_S
        while True:
            told = await self._world.readiness()
            left = _away(told) | {
                reason for reason in _reasons(told) - self.reasons if _STAYS not in reason
            }
            if not left:
                return time.monotonic(), left
            if time.monotonic() > deadline:
                return None, left
            await asyncio.sleep(_POLL_S)

    async def _ended(self, before: float) -> None:
        deadline = time.monotonic() + HUNG_S + 5
        while self._traffic.oldest() < before:
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(_POLL_S)

    async def _metrics(self) -> None:
        text = (await self._world.operator.get("/metrics")).text
        self._dropped = int(metric(text, "foreword_ledger_dropped_rows") or 0)
        self._failovers = sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("foreword_failovers_total")
        )


def _away(told: dict[str, Any]) -> set[str]:
    """Replicas that get no requests, or a gateway that doesn't say."""
    replicas = told.get("replicas") or {}
    if not replicas:
        return {told.get("problem") or "no replicas"}
    return {
        f"{name} is {one['state']}, breaker {one['breaker']}"
        for name, one in replicas.items()
        if one["state"] != "ready" or one["breaker"] != "closed"
    }


def _reasons(told: dict[str, Any]) -> set[str]:
    """What is wrong, with figures and names of replicas left out."""
    return {_DIGITS.sub("#", reason) for reason in told.get("reasons", ())}


def _line(verdict: Verdict) -> str:
    said = "good" if verdict.good else "; ".join(verdict.problems)
    return (
        f"{verdict.name}: {verdict.sent} sent, {verdict.answered} answered, failed "
        f"{verdict.failed or 'none'}, {verdict.lost} lost, {verdict.hung} hung, slowest "
        f"{verdict.slowest_s:.1f} s, whole after {verdict.whole_s} s: {said}"
    )
