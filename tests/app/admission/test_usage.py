"""A day's tokens are added up over gateways, survive a restart, and begin anew at midnight."""

import pytest
import sqlalchemy as sa

from app.admission.usage import DailyUse
from app.tables import tenant_days

NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC


def test_two_gateways_add_up_and_a_restart_forgets_nothing(database: sa.Engine) -> None:
    one, other = (DailyUse(database, now=lambda: NOON) for _ in range(2))
    one.add("a", 100)
    other.add("a", 30)
    assert (one.of("a"), other.of("a")) == (100, 30)
    one.sync()
    other.sync()
    one.sync()
    assert (one.of("a"), other.of("a")) == (130, 130)
    again = DailyUse(database, now=lambda: NOON)
    again.sync()
    assert again.of("a") == 130
    assert again.of("b") == 0


def test_at_midnight_utc_it_begins_anew(database: sa.Engine) -> None:
    now = [NOON]
    use = DailyUse(database, now=lambda: now[0])
    use.add("a", 100)
    assert use.until_midnight_s() == 12 * 3600
    now[0] += 12 * 3600
    assert use.of("a") == 0
    use.add("a", 5)
    use.sync()
    assert use.of("a") == 5
    with database.connect() as connection:
        days = connection.execute(sa.select(tenant_days).order_by(tenant_days.c.day)).all()
    assert [(row.day, row.tokens) for row in days] == [("2026-01-01", 100), ("2026-01-02", 5)]


def test_what_can_not_be_written_is_kept_and_written_later(database: sa.Engine) -> None:
    use = DailyUse(database, now=lambda: NOON)
    use.add("a", 100)
    with database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE tenant_days RENAME TO away"))
    with pytest.raises(sa.exc.SQLAlchemyError):
        use.sync()
    assert use.of("a") == 100
    with database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE away RENAME TO tenant_days"))
    use.sync()
    assert use.of("a") == 100
