"""What an operator orders at one gateway, all gateways do, those started later too."""

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from app.admission.store import OPERATOR
from app.books import BookShelf
from app.database import open_database
from app.errors import InvalidRequestError, ReplicaNotFoundError
from app.fleet.addresses import Listening
from app.fleet.fleet import Fleet
from app.fleet.following import Following
from app.fleet.opening import open_fleet
from app.fleet.order_book import OrderBook
from app.fleet.orders import Orders
from app.fleet.states import ReplicaState
from app.settings import AccountingSettings
from app.tables import audit_log
from tests.app.conditions import becomes
from tests.app.fleet.test_following import Source
from tests.gateways import gateway_settings

pytestmark = pytest.mark.anyio

A, B, C = "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"


class Gateway:
    """A fleet that nobody watches, and a source of A and B."""

    def __init__(self, home: Path, database: sa.Engine) -> None:
        settings = gateway_settings(home, A)
        shelf = BookShelf(AccountingSettings(), key=b"key")
        self.fleet: Fleet = open_fleet(settings, shelf)
        self.source = Source(A, B)
        self.orders = Orders(self.fleet, OrderBook(database))
        self.following = Following(self.fleet, self.source, every_s=1.0, orders=self.orders)

    async def start(self) -> None:
        await self.following.look()
        await self.orders.look()

    def states(self) -> dict[str, ReplicaState]:
        return {replica.client.url: replica.state for replica in self.fleet.replicas}

    def cordoned(self) -> set[str]:
        """One that was never met is still starting, too."""
        return {replica.client.url for replica in self.fleet.replicas if replica.cordoned}

    def name(self, url: str) -> str:
        return next(r.name for r in self.fleet.replicas if r.client.url == url)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_database(tmp_path / "foreword.db")
    yield engine
    engine.dispose()


@pytest.fixture
def gateways(tmp_path: Path, database: sa.Engine) -> Iterator[list[Gateway]]:
    made = [Gateway(tmp_path, database) for _ in range(3)]
    yield made
    for each in made:
        each.fleet.close()


async def test_an_order_reaches_the_others_and_those_that_start_later(
    gateways: list[Gateway],
) -> None:
    one, other, late = gateways
    await one.start()
    await other.start()
    await one.orders.cordon(one.name(A), by=OPERATOR)
    await other.orders.look()
    await late.start()
    assert [each.cordoned() for each in gateways] == [{A}] * 3
    await late.orders.uncordon(late.name(A), by=OPERATOR)
    for each in (one, other):
        await each.orders.look()
        assert each.cordoned() == set()


async def test_a_gateway_that_another_takes_for_a_replica_is_none_of_its_own(
    gateways: list[Gateway], database: sa.Engine
) -> None:
    one, other, _ = gateways
    other.orders = Orders(other.fleet, OrderBook(database), own=Listening("127.0.0.1", 8400))
    await one.start()
    await other.start()
    await one.orders.add("http://127.0.0.1:8400", name="itself", by=OPERATOR)
    await other.orders.look()
    assert set(other.states()) == {A, B}


async def test_what_was_added_is_added_everywhere_and_outlives_its_gateway(
    gateways: list[Gateway],
) -> None:
    one, other, late = gateways
    await one.start()
    await other.start()
    await one.orders.add(C, name="gpu-3", by=OPERATOR)
    await other.orders.look()
    await late.start()
    assert [each.name(C) for each in gateways] == ["gpu-3"] * 3
    await late.orders.remove("gpu-3", by=OPERATOR)
    for each in (one, other):
        await each.orders.look()
        assert C not in each.states()
    await one.orders.add(C, name="again", by=OPERATOR)
    await other.orders.look()
    assert other.name(C) == "again"


async def test_what_was_sent_away_is_not_brought_back_by_the_source(
    gateways: list[Gateway],
) -> None:
    one, other, late = gateways
    await one.start()
    await one.orders.remove(one.name(B), by=OPERATOR)
    for each in (other, late):
        await each.start()
        await each.following.look()
        assert set(each.states()) == {A}
    for each in gateways:
        each.source.urls = (A,)
        await each.following.look()
        await each.orders.look()
    # Another engine comes to its address.
    for each in gateways:
        each.source.urls = (A, B)
        await each.following.look()
        assert set(each.states()) == {A, B}


async def test_a_drain_that_ended_stays_so_and_can_be_taken_back(gateways: list[Gateway]) -> None:
    one, other, late = gateways
    await one.start()
    await other.start()
    await one.orders.drain(one.name(B), by=OPERATOR)
    await other.orders.look()
    assert other.states()[B] is ReplicaState.DRAINING
    other.fleet.remove(other.name(B))  # its requests there have ended
    await other.orders.look()
    await other.following.look()
    await late.start()
    assert B not in other.states()
    assert late.states()[B] is ReplicaState.DRAINING
    await one.orders.uncordon(one.name(B), by=OPERATOR)
    for each in (other, late):
        await each.orders.look()
        assert each.states()[B] is ReplicaState.STARTING


async def test_what_was_added_is_not_drained_by_the_source(gateways: list[Gateway]) -> None:
    one = gateways[0]
    one.source.urls = (A,)
    await one.start()
    await one.orders.add(B, name=None, by=OPERATOR)
    one.source.urls = (A, B)
    await one.following.look()
    one.source.urls = (A,)
    await one.following.look()
    assert one.states()[B] is ReplicaState.STARTING


async def test_a_name_that_is_taken_elsewhere_is_not_in_the_way(gateways: list[Gateway]) -> None:
    one, other = gateways[:2]
    await one.start()
    await other.start()
    await other.fleet.add("http://10.0.0.9:1", name="gpu-3")
    await one.orders.add(C, name="gpu-3", by=OPERATOR)
    await other.orders.look()
    assert other.name(C) == "10.0.0.3:1"


async def test_stale_orders_are_forgotten_when_the_source_tells_all(
    gateways: list[Gateway],
) -> None:
    one, late = gateways[0], gateways[2]
    await one.start()
    await one.orders.cordon(one.name(B), by=OPERATOR)
    late.source.urls = (A,)
    await late.start()
    await late.orders.forget_all_but(late.following.found)
    late.source.urls = (A, B)
    await late.following.look()
    await late.orders.look()
    assert (set(late.states()), late.cordoned()) == ({A, B}, set())


async def test_refused_orders_leave_nothing(gateways: list[Gateway], database: sa.Engine) -> None:
    one = gateways[0]
    await one.start()
    with pytest.raises(InvalidRequestError):
        await one.orders.add(A, name="x", by=OPERATOR)
    with pytest.raises(ReplicaNotFoundError):
        await one.orders.drain("nobody", by=OPERATOR)
    assert await anyio.to_thread.run_sync(OrderBook(database).load) == {}
    with database.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(audit_log)) == 0


async def test_every_order_is_audited_with_it(gateways: list[Gateway], database: sa.Engine) -> None:
    one = gateways[0]
    await one.start()
    await one.orders.add(C, name="c", by=OPERATOR)
    for order in (one.orders.cordon, one.orders.uncordon, one.orders.remove):
        await order("c", by=OPERATOR)
    with database.connect() as connection:
        actions = connection.scalars(sa.select(audit_log.c.action).order_by(audit_log.c.id)).all()
    assert actions == ["replica.add", "replica.cordon", "replica.uncordon", "replica.remove"]


async def test_a_database_that_is_away_is_said(
    gateways: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.fleet import orders

    monkeypatch.setattr(orders, "_LOOK_S", 0.01)
    one = gateways[0]
    await one.start()
    await one.orders.cordon(one.name(A), by=OPERATOR)

    def away() -> None:
        raise sa.exc.OperationalError("select", {}, Exception("away"))

    with monkeypatch.context() as broken:
        broken.setattr(OrderBook, "load", lambda _: away())
        await _watch(one, lambda: one.orders.problem is not None)
    assert one.cordoned() == {A}
    await _watch(one, lambda: one.orders.problem is None)


async def _watch(gateway: Gateway, until: Callable[[], bool]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.orders.watch)
        assert await becomes(until)
        tasks.cancel_scope.cancel()
