"""Webhooks: signed as the OpenAI SDK checks it, tried again, never sent where they mayn't go."""

import base64
import hmac
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import openai
import orjson
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from app.batches.lines import LineProblem
from app.batches.records import WINDOW_S
from app.batches.store import BatchStore
from app.database import open_database
from app.errors import InvalidSettingError, WebhookRefusedError
from app.settings import WebhookEndpoint, WebhooksSettings
from app.tables import webhook_deliveries
from app.webhooks import courier, outbox
from app.webhooks.addresses import check_url, find_target, is_public
from app.webhooks.courier import Courier
from app.webhooks.opening import open_outbox
from app.webhooks.outbox import PAUSES_S
from app.webhooks.signing import secret_bytes, signed_headers
from bench.engine_sim import SimulatorThread
from tests.app.batches.requests import CHAT, chat_line, run
from tests.app.webhooks.receiver import Receiver, receiving
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
NOW = 1_800_000_000.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    made = open_database(tmp_path / "foreword.db")
    yield made
    made.dispose()


def told(*urls: str, tenant: str | None = None, allow_private: bool = True) -> WebhooksSettings:
    endpoints = tuple(
        WebhookEndpoint(url=url, secret=SecretStr(SECRET), tenant=tenant) for url in urls
    )
    return WebhooksSettings(endpoints=endpoints, allow_private=allow_private, timeout_s=5)


def failed_batch(
    database: sa.Engine, settings: WebhooksSettings, *, tenant: str = "a", now: float = NOW
) -> str:
    """The id of a batch whose file was at fault: that is an end, too."""
    store = BatchStore(database, told=open_outbox(settings, database))
    batch = store.create(
        tenant=tenant, endpoint=CHAT, input_file_id="file-1", metadata=None, now=now - WINDOW_S
    )
    store.refuse(batch, [LineProblem(code="x", message="x")], now)
    return batch.id


def courier_at(now: float | None, settings: WebhooksSettings, database: sa.Engine) -> Courier:
    """At a time, or with the real clock."""
    clock = time.time if now is None else lambda: now
    kept = open_outbox(settings, database)
    return Courier(kept, allow_private=settings.allow_private, timeout_s=5, now=clock)


def left(database: sa.Engine) -> list[tuple[int, float]]:
    c = webhook_deliveries.c
    with database.connect() as connection:
        rows = connection.execute(sa.select(c.attempts, c.due_at).order_by(c.endpoint)).all()
    return [(row.attempts, row.due_at) for row in rows]


def test_the_openai_sdk_unwraps_what_comes(
    simulator: SimulatorThread, tmp_path: Path, receiver: Receiver
) -> None:
    settings = gateway_settings(tmp_path, simulator.url)
    settings = settings.model_copy(update={"webhooks": told(receiver.url)})
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", webhook_secret=SECRET) as client,
    ):
        wait_until_ready(url)
        batch = run(client, [chat_line("a", "Why?")])
        receiver.wait(1)
        headers, body = receiver.heard[0]
        event = client.webhooks.unwrap(body, headers)
        assert event.type == "batch.completed"
        assert event.data.id == batch.id
        assert headers["webhook-id"] == event.id
        with pytest.raises(openai.InvalidWebhookSignatureError):
            client.webhooks.unwrap(body + b" ", headers)


def test_an_end_is_told_at_once(
    simulator: SimulatorThread,
    tmp_path: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The courier would look in an hour, were it not told: of batches, and of responses."""
    monkeypatch.setattr(courier, "IDLE_LOOK_S", 3600.0)
    settings = gateway_settings(tmp_path, simulator.url)
    settings = settings.model_copy(update={"webhooks": told(receiver.url)})
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused") as client,
    ):
        wait_until_ready(url)
        run(client, [chat_line("a", "Why?")])
        receiver.wait(1)
        asked = client.responses.create(model="default", input="Why?", background=True)
        receiver.wait(2)
        long = client.responses.create(
            model="default", input="Why?", background=True, max_output_tokens=4000
        )
        client.responses.cancel(long.id)
        receiver.wait(3)
    about = [orjson.loads(body)["data"]["id"] for _, body in receiver.heard]
    assert about[1:] == [asked.id, long.id]


def test_whoever_tells_is_told_once_it_is_committed(database: sa.Engine) -> None:
    kept = open_outbox(told("http://127.0.0.1:9/"), database)
    seen: list[list[tuple[int, float]]] = []
    kept.changed = lambda: seen.append(left(database))

    def end(response_id: str) -> None:
        with database.begin() as connection:
            kept.response_ended(connection, response_id, tenant="a", status="failed", at=NOW)
            assert seen == []
            if response_id == "broken":
                raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - it is ours
        end("broken")
    assert not any(seen), "of what wasn't committed there is nothing to tell"
    seen.clear()
    end("kept")
    assert seen == [[(0, NOW)]]
    with database.begin() as connection:
        connection.execute(sa.select(webhook_deliveries))
    assert len(seen) == 1, "others' transactions are nobody's business"


@pytest.mark.anyio
async def test_what_is_due_is_told_at_its_time_and_more_than_a_few_at_once(
    database: sa.Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nobody wakes the courier meanwhile."""
    monkeypatch.setattr(courier, "IDLE_LOOK_S", 3600.0)
    monkeypatch.setattr(outbox, "PAUSES_S", (0.3, 0.3))
    settings = told(receiver.url)
    for _ in range(40):
        failed_batch(database, settings, now=time.time())
    receiver.statuses = [500] * 20
    async with working(courier_at(None, settings, database)):
        await anyio.to_thread.run_sync(receiver.wait, 60)
        await until_empty(database)
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 40


@pytest.mark.anyio
async def test_what_another_gateway_left_is_told_by_one_that_rests(
    database: sa.Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "IDLE_LOOK_S", 0.05)
    settings = told(receiver.url)
    with looks(database) as seen:
        async with working(courier_at(None, settings, database)):
            with anyio.fail_after(60):
                while not seen:  # noqa: ASYNC110 - it is in another thread
                    await anyio.sleep(0.01)
            # By an outbox of its own: nobody here is told.
            failed_batch(database, settings, now=time.time())
            await anyio.to_thread.run_sync(receiver.wait, 1)
            await until_empty(database)


@contextmanager
def looks(database: sa.Engine) -> Iterator[list[str]]:
    """The statements by which it is looked for what is due, as they come back."""
    seen: list[str] = []

    def note(_connection: sa.Connection, _: object, statement: str, *_more: object) -> None:
        seen.extend([statement] if "FROM webhook_deliveries" in statement else [])

    sa.event.listen(database, "after_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(database, "after_cursor_execute", note)


@asynccontextmanager
async def working(made: Courier) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.watch)
        yield
        tasks.cancel_scope.cancel()


async def until_empty(database: sa.Engine) -> None:
    with anyio.fail_after(60):
        while left(database):  # noqa: ASYNC110 - it is in a database
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_it_is_tried_again_until_it_is_heard_under_the_same_id(
    database: sa.Engine, receiver: Receiver
) -> None:
    settings = told(receiver.url)
    failed_batch(database, settings)
    receiver.statuses = [500, 307, 404]
    now = NOW
    for attempt in range(1, 4):
        made = courier_at(now, settings, database)
        await made.deliver_due()
        assert left(database) == [(attempt, now + PAUSES_S[attempt - 1])]
        await made.deliver_due()  # not due yet
        assert len(receiver.heard) == attempt
        now += PAUSES_S[attempt - 1]
    await courier_at(now, settings, database).deliver_due()
    assert left(database) == []
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 1
    assert len({body for _, body in receiver.heard}) == 1
    times = [int(headers["webhook-timestamp"]) for headers, _ in receiver.heard]
    assert times == sorted(times)
    assert len(set(times)) == 4, "each attempt is signed anew"


@pytest.mark.anyio
async def test_it_ends_when_nobody_will_ever_hear(database: sa.Engine, receiver: Receiver) -> None:
    settings = told(receiver.url)
    failed_batch(database, settings)
    receiver.statuses = [410]
    await courier_at(NOW, settings, database).deliver_due()
    assert left(database) == [], "410 is: don't come again"
    failed_batch(database, settings)
    receiver.statuses = [500] * 20
    now = NOW
    for pause_s in (*PAUSES_S, 0):
        await courier_at(now, settings, database).deliver_due()
        now += pause_s
    assert left(database) == []
    assert len(receiver.heard) == 1 + len(PAUSES_S) + 1


@pytest.mark.anyio
async def test_an_endpoint_is_told_of_its_tenant_alone(
    database: sa.Engine, receiver: Receiver
) -> None:
    settings = told(receiver.url, tenant="b")
    failed_batch(database, settings, tenant="a")
    assert left(database) == []
    failed_batch(database, settings, tenant="b")
    assert len(left(database)) == 1
    none = told()
    await courier_at(NOW, none, database).deliver_due()
    assert left(database) == [], "an endpoint that isn't in the settings any more"
    assert receiver.heard == []


@pytest.mark.anyio
async def test_a_private_address_is_not_asked(database: sa.Engine, receiver: Receiver) -> None:
    """The setting was changed after the event was kept, or the name leads elsewhere now."""
    failed_batch(database, told(receiver.url))
    kept = open_outbox(told(receiver.url), database)
    await Courier(kept, allow_private=False, timeout_s=5, now=lambda: NOW).deliver_due()
    assert receiver.heard == []
    assert [attempts for attempts, _ in left(database)] == [1]


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://localhost:8400/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.1.2.3/",
        "https://0.0.0.0/",
        "https://2130706433/",
        "http://93.184.215.14/",
        "https://user:password@93.184.215.14/",
        "ftp://93.184.215.14/",
        "https://",
        "https://[",
    ],
)
@pytest.mark.anyio
async def test_where_no_webhook_goes(url: str) -> None:
    with pytest.raises(WebhookRefusedError) as caught:
        await find_target(url, allow_private=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://224.0.0.1/"]
)
@pytest.mark.anyio
async def test_where_none_goes_though_private_addresses_are_taken(url: str) -> None:
    with pytest.raises(WebhookRefusedError, match="link-local or multicast"):
        await find_target(url, allow_private=True)
    with pytest.raises(WebhookRefusedError, match="link-local or multicast"):
        check_url(url, allow_private=True)


def test_an_address_that_no_webhook_goes_to_is_refused_at_the_start() -> None:
    """Not only when there is something to tell."""
    with pytest.raises(WebhookRefusedError, match="isn't a public address"):
        check_url("https://10.0.0.1/hook", allow_private=False)
    check_url("https://10.0.0.1/hook", allow_private=True)
    check_url("https://93.184.215.14/hook", allow_private=False)


@pytest.mark.anyio
async def test_what_was_looked_at_is_what_is_asked() -> None:
    target = await find_target("https://93.184.215.14:8443/a?b=c", allow_private=False)
    assert target.url == "https://93.184.215.14:8443/a?b=c"
    assert (target.host, target.name) == ("93.184.215.14:8443", "93.184.215.14")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("100.64.0.1", False),
        ("192.168.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
        ("2002:a00:1::", False),
    ],
)
def test_what_is_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    ("url", "secret", "words"),
    [
        ("http://example.org/", SECRET, "https"),
        ("https://example.org/", "secret", "whsec_"),
        ("https://example.org/", "whsec_?", "base64"),
        ("https://example.org/", "whsec_YQ==", "24 to 64"),
    ],
)
def test_settings_that_cant_hold_are_told(
    database: sa.Engine, url: str, secret: str, words: str
) -> None:
    endpoint = WebhookEndpoint(url=url, secret=SecretStr(secret))
    with pytest.raises(InvalidSettingError, match=words) as caught:
        open_outbox(WebhooksSettings(endpoints=(endpoint,)), database)
    assert secret not in str(caught.value) or secret == "secret"


def test_a_signature_is_as_the_specification_has_it() -> None:
    headers = signed_headers(secret_bytes(SECRET), "evt_1", 1_800_000_000, b"{}")
    expected = hmac.new(KEY, b"evt_1.1800000000.{}", "sha256").digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()
