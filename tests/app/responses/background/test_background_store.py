"""One response of the background, one end: over other gateways, cancellations, deletions."""

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from app.errors import NotStoredError, QueueFullError, ResponseNotFoundError
from app.responses.background.records import Claimed, RunStatus, chosen, numbered
from app.responses.background.store import BackgroundStore
from app.responses.background.work import OWNED_S
from app.settings import WebhookEndpoint, WebhooksSettings
from app.stored.records import StoredResponse
from app.stored.responses import ResponseStore
from app.tables import webhook_deliveries
from app.webhooks.opening import open_outbox
from tests.app.webhooks.receiver import SECRET

NOW = 1_800_000_000.0
HOOKS = WebhooksSettings(
    endpoints=(WebhookEndpoint(url="http://127.0.0.1:9/hook", secret=SecretStr(SECRET)),),
    allow_private=True,
)


@pytest.fixture
def store(database: sa.Engine) -> BackgroundStore:
    """On SQLite and on PostgreSQL."""
    return BackgroundStore(database, told=open_outbox(HOOKS, database))


def stored(response_id: str, status: str = "queued", *, tenant: str = "a") -> StoredResponse:
    return StoredResponse(
        id=response_id,
        tenant=tenant,
        created_at=NOW,
        response={"id": response_id, "status": status, "output": []},
        input=[],
    )


def claim(store: BackgroundStore, owner: str, now: float) -> Claimed | None:
    waiting = chosen(store.work.waiting(owner, now, without=()), [], now=now, room=1, per_tenant=1)
    return store.work.claim(waiting[0], owner, now) if waiting else None


def told(database: sa.Engine) -> int:
    count = sa.select(sa.func.count()).select_from(webhook_deliveries)
    with database.connect() as connection:
        return connection.scalar(count) or 0


def finish(store: BackgroundStore, database: sa.Engine, claimed: Claimed, status: str) -> bool:
    try:
        with database.begin() as connection:
            store.work.finish(
                connection, stored(claimed.id, status), attempt=claimed.attempt, now=NOW
            )
    except NotStoredError:
        return False
    return True


def test_another_gateway_takes_it_up_once_its_own_is_silent_and_the_first_one_ends_nothing(
    store: BackgroundStore, database: sa.Engine
) -> None:
    store.queue(stored("resp_1"), b"{}", streams=True, most=9)
    first = claim(store, "one", NOW)
    assert first is not None
    assert claim(store, "two", NOW + 1) is None
    assert store.work.renew({"resp_1": 1}, "one", NOW + OWNED_S) == {"resp_1"}
    assert claim(store, "two", NOW + OWNED_S + 1) is None
    second = claim(store, "two", NOW + 3 * OWNED_S)
    assert second is not None
    assert (first.attempt, second.attempt, second.lost) == (1, 2, 1)
    assert store.work.renew({"resp_1": 1}, "one", NOW + 3 * OWNED_S) == set()
    store.work.add_events({("resp_1", 1): numbered([{"type": "late"}], 2)})
    assert store.events("resp_1", tenant="a", after=-1).events == []
    assert not finish(store, database, first, "completed")
    assert finish(store, database, second, "incomplete")
    assert not finish(store, database, second, "completed")
    assert told(database) == 1
    kept = ResponseStore(database).get("resp_1", tenant="a")
    assert kept.response["status"] == "incomplete"


def test_events_that_are_written_twice_are_there_once(store: BackgroundStore) -> None:
    store.queue(stored("resp_1"), b"{}", streams=True, most=9)
    assert claim(store, "one", NOW) is not None
    events = numbered([{"type": "a"}, {"type": "b"}, {"type": "c"}], 2)
    store.work.add_events({("resp_1", 1): events[:2]})
    store.work.add_events({("resp_1", 1): events})
    seen = store.events("resp_1", tenant="a", after=1)
    assert [event["type"] for event in seen.events] == ["a", "b", "c"]
    assert seen.next_event == 5


def test_the_same_gateway_takes_its_own_up_at_once(store: BackgroundStore) -> None:
    store.queue(stored("resp_1"), b"{}", streams=False, most=9)
    assert claim(store, "one", NOW) is not None
    again = claim(store, "one", NOW + 1)
    assert again is not None
    assert (again.attempt, again.lost) == (2, 1)
    store.work.give_back(again, not_before=0.0)
    given = claim(store, "two", NOW + 2)
    assert given is not None
    assert (given.attempt, given.lost) == (3, 1), "what is given back isn't lost"


def test_what_was_deleted_has_no_end(store: BackgroundStore, database: sa.Engine) -> None:
    store.queue(stored("resp_1"), b"{}", streams=True, most=9)
    first = claim(store, "one", NOW)
    assert first is not None
    with pytest.raises(ResponseNotFoundError):
        store.delete("resp_1", tenant="b")
    store.delete("resp_1", tenant="a")
    assert store.work.renew({"resp_1": 1}, "one", NOW) == set()
    assert not finish(store, database, first, "completed")
    assert told(database) == 0
    with pytest.raises(ResponseNotFoundError):
        store.events("resp_1", tenant="a", after=-1)


def test_a_tenant_has_no_more_under_way_than_it_may(store: BackgroundStore) -> None:
    for number in range(3):
        store.queue(stored(f"resp_{number}"), b"{}", streams=False, most=3)
    with pytest.raises(QueueFullError):
        store.queue(stored("resp_3"), b"{}", streams=False, most=3)
    store.queue(stored("resp_4", tenant="b"), b"{}", streams=False, most=3)
    store.cancel("resp_0", tenant="a", now=NOW)
    store.queue(stored("resp_5"), b"{}", streams=False, most=3)


steps = st.lists(
    st.tuples(
        st.sampled_from(["claim", "finish", "fail", "back", "cancel", "delete", "events"]),
        st.sampled_from(["one", "two"]),
        st.integers(0, 90),
    ),
    max_size=20,
)


@given(steps)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_there_is_one_end_and_one_event(
    database: sa.Engine, happens: list[tuple[str, str, int]]
) -> None:
    """All examples have one database, emptied before each."""
    with database.begin() as connection:
        for name in ("background_responses", "background_events", "stored_responses"):
            connection.execute(sa.text(f"DELETE FROM {name}"))
        connection.execute(sa.delete(webhook_deliveries))
    store = BackgroundStore(database, told=open_outbox(HOOKS, database))
    store.queue(stored("resp_1"), b"{}", streams=True, most=9)
    held: dict[str, Claimed] = {}
    now, ends, deleted = NOW, 0, False
    for step, owner, pause_s in happens:
        now += pause_s
        mine = held.get(owner)
        match step:
            case "claim":
                taken = claim(store, owner, now)
                held |= {owner: taken} if taken else {}
            case "finish" if mine:
                ends += finish(store, database, mine, "completed")
            case "fail" if mine:
                response = {"id": "resp_1", "status": "failed", "output": []}
                ends += store.work.end(mine, response, now) and not deleted
            case "back" if mine:
                store.work.give_back(mine, not_before=now)
            case "cancel" if not deleted:
                before = ResponseStore(database).get("resp_1", tenant="a").response["status"]
                store.cancel("resp_1", tenant="a", now=now)
                ends += before in ("queued", "in_progress")
            case "delete" if not deleted:
                store.delete("resp_1", tenant="a")
                deleted = True
            case "events" if mine:
                more = numbered([{"type": "x"}], mine.next_event + pause_s)
                store.work.add_events({("resp_1", mine.attempt): more})
        assert ends <= 1
        assert told(database) == ends
    if not deleted:
        status = ResponseStore(database).get("resp_1", tenant="a").response["status"]
        assert (status in (RunStatus.QUEUED, RunStatus.IN_PROGRESS)) == (ends == 0)
