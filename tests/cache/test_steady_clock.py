"""A clock that jumps is not believed, and what is deleted for its age stays meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from cache.retention import Purger, Retention
from cache.rows import LedgerRow, insert_rows
from cache.steady_clock import SteadyClock
from cache.tables import ledger

YEAR_S = 365 * 86_400.0


@dataclass
class Clocks:
    """Both clocks, as a test sets them."""

    now: float = 1.8e9
    ticks: float = 500.0

    def go_on(self, seconds: float) -> None:
        self.now += seconds
        self.ticks += seconds

    def steady(self) -> SteadyClock:
        return SteadyClock(now=lambda: self.now, ticks=lambda: self.ticks)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-30, 30)), max_size=20))
def test_a_clock_that_is_put_right_by_seconds_is_believed(steps: list[tuple[float, float]]) -> None:
    clocks = Clocks()
    clock = clocks.steady()
    for seconds, correction in steps:
        clocks.go_on(seconds)
        clocks.now += correction
        assert clock.is_steady()


@pytest.mark.parametrize("jump_s", [YEAR_S, -3600.0, 61.0])
def test_a_jump_is_not_believed_for_an_hour(jump_s: float) -> None:
    clocks = Clocks()
    clock = clocks.steady()
    clocks.now += jump_s
    for _ in range(60):
        assert not clock.is_steady()
        clocks.go_on(60)
    assert clock.is_steady()


def test_a_jump_back_is_a_jump_too() -> None:
    clocks = Clocks()
    clock = clocks.steady()
    clocks.now += YEAR_S
    assert not clock.is_steady()
    clocks.go_on(3_000)
    clocks.now -= YEAR_S
    assert not clock.is_steady()
    clocks.go_on(3_000)
    assert not clock.is_steady()


def test_rows_outlive_a_clock_that_is_a_year_ahead_for_a_while(
    database: sa.Engine, make_row: Callable[..., LedgerRow]
) -> None:
    clocks = Clocks()
    purger = Purger(database, Retention(rows_days=30), every_s=0, clock=clocks.steady())
    with database.begin() as connection:
        insert_rows(connection, [make_row(at=datetime.fromtimestamp(clocks.now, UTC))])

    def rows_after_a_purge() -> int:
        purger.run_if_due()
        with database.connect() as connection:
            return int(connection.scalar(sa.select(sa.func.count()).select_from(ledger)) or 0)

    clocks.now += YEAR_S
    assert rows_after_a_purge() == 1
    clocks.go_on(60)
    clocks.now -= YEAR_S
    assert rows_after_a_purge() == 1
    # Time that really passes makes them old.
    clocks.go_on(3_600)
    assert rows_after_a_purge() == 1
    clocks.go_on(31 * 86_400)
    assert rows_after_a_purge() == 0
