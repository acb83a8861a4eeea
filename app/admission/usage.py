"""What each tenant used today, of all gateways on the database: what daily quotas are held to.

Counted in memory, added to the database every second, and read back with what others added. A crash
loses a second's tokens.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import anyio
import sqlalchemy as sa
import structlog

from app.tables import tenant_days

_DAY_S = 86_400
_FLUSH_S = 1.0
_KEPT_DAYS = 92


class DailyUse:
    """Tokens by tenant, since midnight UTC."""

    def __init__(self, database: sa.Engine, *, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now
        self._day_number, self._day_name = -1, ""
        self._day = self._today()
        self._known: dict[str, int] = {}
        self._new: dict[tuple[str, str], int] = {}
        self._log = structlog.get_logger()
        self.problem: str | None = None

    def add(self, tenant: str, tokens: int) -> None:
        """It used so many."""
        if tokens:
            day = self._day_name if int(self._now() // _DAY_S) == self._day_number else ""
            if day != self._day:
                day = self._turn()
            self._new[tenant, day] = self._new.get((tenant, day), 0) + tokens

    def of(self, tenant: str) -> int:
        """Tokens of today, others' as of a second ago."""
        day = self._turn()
        return self._known.get(tenant, 0) + self._new.get((tenant, day), 0)

    def until_midnight_s(self) -> float:
        """Seconds until the quotas begin anew."""
        return _DAY_S - self._now() % _DAY_S

    def sync(self) -> None:
        """Write what is new, read what all used today. Blocks."""
        new, self._new = self._new, {}
        day = self._today()
        try:
            with self._database.begin() as connection:
                for (tenant, of_day), tokens in sorted(new.items()):
                    _add(connection, tenant, of_day, tokens)
                of_today = sa.select(tenant_days).where(tenant_days.c.day == day)
                rows = connection.execute(of_today).all()
        except sa.exc.SQLAlchemyError:
            for key, tokens in new.items():
                self._new[key] = self._new.get(key, 0) + tokens
            raise
        self._known, self._day = {row.tenant: row.tokens for row in rows}, day

    async def watch(self) -> None:
        """Do so each second, for ever."""
        await anyio.to_thread.run_sync(self._drop_old)
        while True:
            await anyio.sleep(_FLUSH_S)
            try:
                await anyio.to_thread.run_sync(self.sync)
            except sa.exc.SQLAlchemyError as error:
                if self.problem is None:
                    self._log.warning("daily_use_unwritten", problem=type(error).__name__)
                self.problem = f"daily quotas are counted in memory only ({type(error).__name__})"
            else:
                self.problem = None

    def _drop_old(self) -> None:
        oldest = datetime.fromtimestamp(self._now() - _KEPT_DAYS * _DAY_S, UTC).date().isoformat()
        with self._database.begin() as connection:
            connection.execute(sa.delete(tenant_days).where(tenant_days.c.day < oldest))

    def _turn(self) -> str:
        day = self._today()
        if day != self._day:
            self._day, self._known = day, {}
        return day

    def _today(self) -> str:
        now = self._now()
        number = int(now // _DAY_S)
        if number != self._day_number:
            self._day_name = datetime.fromtimestamp(now, UTC).date().isoformat()
            self._day_number = number
        return self._day_name


def _add(connection: sa.Connection, tenant: str, day: str, tokens: int) -> None:
    """Other gateways add to the same row."""
    this = (tenant_days.c.tenant == tenant) & (tenant_days.c.day == day)
    more = sa.update(tenant_days).where(this).values(tokens=tenant_days.c.tokens + tokens)
    if connection.execute(more).rowcount:
        return
    try:
        with connection.begin_nested():
            row = {"tenant": tenant, "day": day, "tokens": tokens}
            connection.execute(sa.insert(tenant_days).values(**row))
    except sa.exc.IntegrityError:  # another gateway was a moment earlier
        connection.execute(more)
