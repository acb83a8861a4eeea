"""Rows that one gateway at a time works on, on SQLite and on PostgreSQL."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.leases import NOBODYS, Lease

LEASE_S = 60.0
NOW = 1_800_000_000.0
THINGS = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("owner", sa.String(64)),
    sa.Column("owned_until", sa.Double, nullable=False),
)
LEASE = Lease(THINGS, seconds=LEASE_S)


@pytest.fixture
def things(database: sa.Engine) -> sa.Engine:
    """A database with one row, nobody's."""
    THINGS.create(database)
    reset(database)
    return database


def reset(things: sa.Engine, ids: Iterable[int] = (1,)) -> None:
    with things.begin() as connection:
        connection.execute(sa.delete(THINGS))
        connection.execute(sa.insert(THINGS), [{"id": each, **NOBODYS} for each in ids])


def done(things: sa.Engine, statement: sa.Update) -> int:
    """How many rows it changed."""
    with things.begin() as connection:
        return connection.execute(statement).rowcount


def free(things: sa.Engine, now: float) -> bool:
    with things.connect() as connection:
        return bool(connection.execute(sa.select(THINGS).where(LEASE.free(now))).all())


def test_one_of_those_that_are_fast_has_it(things: sa.Engine) -> None:
    rows = range(20)
    reset(things, rows)

    def taken(owner: str) -> list[int]:
        return [
            each for each in rows if done(things, LEASE.take(owner, NOW, THINGS.c.id == each)) == 1
        ]

    with ThreadPoolExecutor(4) as threads:
        had = threads.map(taken, ("one", "two", "three", "four"))
        assert sorted(chain.from_iterable(had)) == list(rows), "each row has one owner"


def test_it_is_its_owners_while_that_says_so(things: sa.Engine) -> None:
    assert done(things, LEASE.take("one", NOW)) == 1
    assert done(things, LEASE.take("two", NOW + LEASE_S)) == 0
    assert done(things, LEASE.renew("two", NOW)) == 0
    assert done(things, LEASE.renew("one", NOW + LEASE_S)) == 1
    assert done(things, LEASE.take("two", NOW + 2 * LEASE_S)) == 0
    assert done(things, LEASE.take("two", NOW + 2 * LEASE_S + 1)) == 1
    assert done(things, LEASE.renew("one", NOW + 2 * LEASE_S + 1)) == 0, "it was taken over"
    assert done(things, LEASE.let_go(LEASE.held_by("one"))) == 0
    assert done(things, LEASE.let_go(LEASE.held_by("two"))) == 1
    assert done(things, LEASE.take("one", NOW)) == 1, "let go, it is there at once"


def test_a_gateway_has_its_own_back_at_once_after_a_restart(things: sa.Engine) -> None:
    assert done(things, LEASE.take("one", NOW)) == 1
    assert done(things, LEASE.take("one", NOW + 1)) == 1


def test_it_is_due_once_half_of_its_time_is_over(things: sa.Engine) -> None:
    assert done(things, LEASE.take("one", NOW)) == 1
    assert done(things, LEASE.renew("one", NOW + LEASE_S / 3, LEASE.due(NOW + LEASE_S / 3))) == 0
    late = NOW + LEASE_S / 2 + 1
    assert done(things, LEASE.renew("one", late, LEASE.due(late))) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "renew", "let go"]),
            st.sampled_from(["one", "two", "three"]),
            st.integers(-200, 200),
        ),
        max_size=15,
    )
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_has_one_owner_whatever_the_clocks_do(
    things: sa.Engine, happens: list[tuple[str, str, int]]
) -> None:
    """A clock that jumps lets a row be taken early or late, and never leaves it with two owners."""
    reset(things)
    owner, until, now = None, 0.0, NOW
    for step, who, jump_s in happens:
        now += jump_s
        assert free(things, now) == (owner is None or until < now)
        match step:
            case "take":
                may = owner in (None, who) or until < now
                assert done(things, LEASE.take(who, now)) == may
                owner, until = (who, now + LEASE_S) if may else (owner, until)
            case "renew":
                assert done(things, LEASE.renew(who, now)) == (owner == who)
                until = now + LEASE_S if owner == who else until
            case "let go":
                assert done(things, LEASE.let_go(LEASE.held_by(who))) == (owner == who)
                owner, until = (None, 0.0) if owner == who else (owner, until)
