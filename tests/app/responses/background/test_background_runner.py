"""One response of the background, one end: over faults, other gateways, cancellations."""

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from app.database import open_database
from app.errors import NotStoredError, QueueFullError, ResponseNotFoundError
from app.responses.background.records import Claimed, RunStatus, chosen, numbered
from app.responses.background.store import OWNED_S, BackgroundStore
from app.settings import BackgroundSettings, LimitsSettings, WebhookEndpoint, WebhooksSettings
from app.stored.records import StoredResponse
from app.stored.responses import ResponseStore
from app.tables import webhook_deliveries
from app.webhooks.opening import open_outbox
from bench.engine_sim import SimulatorThread
from tests.app.responses.background.asking import asked, ended, once
from tests.app.webhooks.receiver import receiving
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NOW = 1_800_000_000.0
HOOKS = WebhooksSettings(
    endpoints=(WebhookEndpoint(url="http://127.0.0.1:9/hook", secret=SecretStr(SECRET)),),
    allow_private=True,
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.Engine]:
    made = open_database(tmp_path_factory.mktemp("runs") / "foreword.db")
    yield made
    made.dispose()


@pytest.fixture
def store(database: sa.Engine) -> BackgroundStore:
    with database.begin() as connection:
        for name in ("background_responses", "background_events", "stored_responses"):
            connection.execute(sa.text(f"DELETE FROM {name}"))
        connection.execute(sa.delete(webhook_deliveries))
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
    waiting = chosen(store.waiting(owner, now, without=()), [], now=now, room=1, per_tenant=1)
    return store.claim(waiting[0], owner, now) if waiting else None


def told(database: sa.Engine) -> int:
    count = sa.select(sa.func.count()).select_from(webhook_deliveries)
    with database.connect() as connection:
        return connection.scalar(count) or 0


def finish(store: BackgroundStore, database: sa.Engine, claimed: Claimed, status: str) -> bool:
    try:
        with database.begin() as connection:
            store.finish(connection, stored(claimed.id, status), attempt=claimed.attempt, now=NOW)
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
    assert store.renew({"resp_1": 1}, "one", NOW + OWNED_S) == {"resp_1"}
    assert claim(store, "two", NOW + OWNED_S + 1) is None
    second = claim(store, "two", NOW + 3 * OWNED_S)
    assert second is not None
    assert (first.attempt, second.attempt, second.lost) == (1, 2, 1)
    assert store.renew({"resp_1": 1}, "one", NOW + 3 * OWNED_S) == set()
    store.add_events({("resp_1", 1): numbered([{"type": "late"}], 2)})
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
    store.add_events({("resp_1", 1): events[:2]})
    store.add_events({("resp_1", 1): events})
    seen = store.events("resp_1", tenant="a", after=1)
    assert [event["type"] for event in seen.events] == ["a", "b", "c"]
    assert seen.next_event == 5


def test_the_same_gateway_takes_its_own_up_at_once(store: BackgroundStore) -> None:
    store.queue(stored("resp_1"), b"{}", streams=False, most=9)
    assert claim(store, "one", NOW) is not None
    again = claim(store, "one", NOW + 1)
    assert again is not None
    assert (again.attempt, again.lost) == (2, 1)
    store.give_back(again, not_before=0.0)
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
    assert store.renew({"resp_1": 1}, "one", NOW) == set()
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
def test_whatever_happens_there_is_one_end_and_one_event(
    database: sa.Engine, happens: list[tuple[str, str, int]]
) -> None:
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
                ends += store.end(mine, response, now) and not deleted
            case "back" if mine:
                store.give_back(mine, not_before=now)
            case "cancel" if not deleted:
                before = ResponseStore(database).get("resp_1", tenant="a").response["status"]
                store.cancel("resp_1", tenant="a", now=now)
                ends += before in ("queued", "in_progress")
            case "delete" if not deleted:
                store.delete("resp_1", tenant="a")
                deleted = True
            case "events" if mine:
                more = numbered([{"type": "x"}], mine.next_event + pause_s)
                store.add_events({("resp_1", mine.attempt): more})
        assert ends <= 1
        assert told(database) == ends
    if not deleted:
        status = ResponseStore(database).get("resp_1", tenant="a").response["status"]
        assert (status in (RunStatus.QUEUED, RunStatus.IN_PROGRESS)) == (ends == 0)


def test_webhooks_tell_how_it_ended(simulator: SimulatorThread, tmp_path: Path) -> None:
    with receiving() as receiver:
        endpoint = WebhookEndpoint(url=receiver.url, secret=SecretStr(SECRET))
        hooks = WebhooksSettings(endpoints=(endpoint,), allow_private=True)
        settings = gateway_settings(tmp_path, simulator.url).model_copy(update={"webhooks": hooks})
        with (
            running_gateway(settings) as url,
            openai.OpenAI(base_url=f"{url}/v1", api_key="unused", webhook_secret=SECRET) as client,
        ):
            wait_until_ready(url)
            cut, wrong = asked(client), asked(client, model="gpt-unknown")
            ended(client, cut), ended(client, wrong)
            stopped = asked(client, tokens=4000)
            client.responses.cancel(stopped)
            receiver.wait(3, within_s=60)
            events = [client.webhooks.unwrap(body, headers) for headers, body in receiver.heard]
    assert {(event.type, event.data.id) for event in events} == {
        ("response.incomplete", cut),
        ("response.failed", wrong),
        ("response.cancelled", stopped),
    }


def test_it_waits_for_an_engine(simulator: SimulatorThread, tmp_path: Path) -> None:
    """Queued by a gateway that makes none, it is made by the next one."""
    settings = gateway_settings(tmp_path, simulator.url)
    none = settings.model_copy(update={"background": BackgroundSettings(concurrent=0)})
    with (
        running_gateway(none) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused") as client,
    ):
        wait_until_ready(url)
        response_id = asked(client)
        assert client.responses.retrieve(response_id).status == "queued"
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused") as client,
    ):
        wait_until_ready(url)
        assert ended(client, response_id).status == "incomplete"


def test_an_engine_that_fails_is_asked_again(simulator: SimulatorThread, tmp_path: Path) -> None:
    with (
        running_gateway(gateway_settings(tmp_path, simulator.url)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused") as client,
    ):
        wait_until_ready(url)
        fault = {"kind": "error", "status": 500, "times": 1}
        ordered = httpx.post(f"{simulator.url}/simulator/faults", json=fault, trust_env=False)
        assert ordered.status_code == 204, ordered.text
        response = ended(client, asked(client))
        assert response.status == "incomplete"
        assert response.foreword["request_id"] == f"{response.id}.2"  # type: ignore[attr-defined]


def test_a_limit_is_waited_for(simulator: SimulatorThread, tmp_path: Path) -> None:
    """One at a time is all that the tenant may have."""
    settings = gateway_settings(tmp_path, simulator.url)
    limits = LimitsSettings(concurrent=1)
    with (
        running_gateway(settings.model_copy(update={"limits": limits})) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=20) as client,
    ):
        wait_until_ready(url)
        ids = [asked(client, f"Question {n}?", tokens=30) for n in range(4)]
        deadline = time.monotonic() + 100
        for each in ids:
            response = once(client, each, lambda r: r.status not in ("queued", "in_progress"))
            assert response.status == "incomplete", response.error
            assert time.monotonic() < deadline
