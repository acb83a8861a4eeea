"""What makes responses of the background: over faults, other gateways, limits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from app.responses.background.runner import IDLE_LOOK_S
from app.settings import BackgroundSettings, LimitsSettings, WebhookEndpoint, WebhooksSettings
from bench.engine_sim import SimulatorThread
from tests.app.responses.background.asking import asked, ended, once
from tests.app.webhooks.receiver import SECRET, receiving
from tests.gateways import gateway_settings, running_gateway, wait_until_ready


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


@contextmanager
def looks(home: Path) -> Iterator[list[str]]:
    """The statements by which a gateway looks for responses that are to be made, as they come."""
    seen: list[str] = []

    def note(connection: sa.Connection, _: object, statement: str, *more: object) -> None:
        if connection.engine.url.database == str(home / "foreword.db"):
            seen.extend([statement] if "FROM background_responses" in statement else [])

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.slow
def test_a_gateway_that_makes_none_asks_the_database_rarely(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    """However long it is looked at: at a time, and once more after each pause."""
    with (
        looks(tmp_path) as seen,
        running_gateway(gateway_settings(tmp_path, simulator.url)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused") as client,
    ):
        wait_until_ready(url)
        assert ended(client, asked(client)).status == "incomplete"
        assert seen, "what it does is counted"
        # It may look once more for what ended: nobody is told when it has.
        before, since = len(seen), time.monotonic()
        while (spent_s := time.monotonic() - since) < IDLE_LOOK_S:
            time.sleep(0.1)
        assert len(seen) - before <= 2 + spent_s / IDLE_LOOK_S
