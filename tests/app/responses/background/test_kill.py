"""The gateway is killed at random moments of responses of the background: each ends once."""

import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import openai
import orjson
import pytest

from app.responses.background.records import MOST_LOST
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.responses.background.asking import asked, ended, once, wait_until_idle
from tests.app.test_shutdown import serving
from tests.app.webhooks.receiver import SECRET, receiving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# With one more death over one of them nobody would make it any more.
KILLS, EACH = MOST_LOST - 1, 4
# Two and a half minutes of the engine: nobody waits so long for it to be idle.
LONG = 7500
ENDS = ("response.completed", "response.incomplete")


def test_killed_at_random_moments_it_ends_each_once(tokenizer_folder: Path, tmp_path: Path) -> None:
    chance = random.Random(8)
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=2))
    ids: list[str] = []
    talk: str | None = None
    with SimulatorThread(config) as simulator, receiving() as receiver:
        endpoints = [{"url": receiver.url, "secret": SECRET}]
        hooks = {
            "FOREWORD_WEBHOOKS__ENDPOINTS": orjson.dumps(endpoints).decode(),
            "FOREWORD_WEBHOOKS__ALLOW_PRIVATE": "true",
        }
        for kill in range(KILLS):
            with (
                serving(tmp_path, simulator.url, **hooks) as gateway,
                openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client,
            ):
                talk = talk or client.conversations.create().id
                for n in range(EACH):
                    where = {"conversation": talk} if n == 0 else {"stream": True}
                    text = f"Question {kill}/{n}?"
                    if n == 0:
                        ids.append(asked(client, text, tokens=24, **where))
                        continue
                    stream = client.responses.create(
                        model="default", input=text, background=True, stream=True,
                        max_output_tokens=24,
                    )  # fmt: skip
                    ids.append(next(iter(stream)).response.id)  # type: ignore[union-attr]
                    stream.close()
                time.sleep(chance.uniform(0.0, 0.6))
                gateway.process.kill()
                gateway.process.wait()
        with (
            serving(tmp_path, simulator.url, **hooks) as gateway,
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client,
        ):
            answers = [ended(client, each) for each in ids]
            streams = [
                list(client.responses.retrieve(each, stream=True))
                for place, each in enumerate(ids)
                if place % EACH
            ]
            assert talk is not None
            items = [
                item.model_dump()
                for item in client.conversations.items.list(talk, order="asc", limit=100)
            ]
    assert {answer.status for answer in answers} == {"incomplete"}
    for events in streams:
        numbers = [event.sequence_number for event in events]
        assert numbers == sorted(set(numbers)), "no number is used twice"
        kinds = Counter(event.type for event in events)
        assert kinds["response.created"] == 1, "what a dead gateway told is forgotten"
        assert sum(kinds[end] for end in ENDS) == 1
        assert events[-1].type in ENDS
    events_told = _events(receiver.heard, tmp_path / "foreword.db")
    told = Counter(orjson.loads(body)["data"]["id"] for body in events_told.values())
    assert told == Counter(ids), "one event for each end"
    said = [item["content"][0]["text"] for item in items if item["role"] == "user"]
    assert said == [f"Question {kill}/0?" for kill in range(KILLS)]
    assert len(items) == 2 * KILLS


def _events(heard: list[tuple[dict[str, str], bytes]], database: Path) -> dict[str, bytes]:
    """Those that were told, perhaps twice, and those that still are to be, by id."""
    with closing(sqlite3.connect(database)) as connection:
        due = dict(connection.execute("SELECT id, body FROM webhook_deliveries").fetchall())
    return due | {headers["webhook-id"]: body for headers, body in heard}


def test_told_to_stop_it_gives_back_what_it_makes(tokenizer_folder: Path, tmp_path: Path) -> None:
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=1))
    with SimulatorThread(config) as simulator:
        with (
            serving(tmp_path, simulator.url) as gateway,
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client,
        ):
            response_id = asked(client, tokens=LONG)
            once(client, response_id, lambda response: response.status == "in_progress")
            gateway.process.terminate()
            gateway.process.wait(60)
            wait_until_idle(simulator.url)
        with (
            serving(tmp_path, simulator.url) as gateway,
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client,
        ):
            once(client, response_id, lambda response: response.status == "in_progress")
            client.responses.cancel(response_id)
            wait_until_idle(simulator.url)
