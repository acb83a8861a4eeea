"""What works beside the requests asks an idle gateway's database rarely."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from app.settings import WebhookEndpoint, WebhooksSettings
from bench.engine_sim import SimulatorThread
from tests.app.batches.requests import chat_line, run
from tests.app.webhooks.receiver import SECRET, receiving
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

# How often it is looked, and by how many statements at a time.
LOOK_S = 5.0
STATEMENTS = {"batches": 1, "agent_runs": 3, "webhook_deliveries": 1}


@contextmanager
def asked(home: Path) -> Iterator[Counter[str]]:
    """How many statements a gateway makes about each of the tables."""
    seen: Counter[str] = Counter()

    def note(connection: sa.Connection, _: object, statement: str, *more: object) -> None:
        if connection.engine.url.database == str(home / "foreword.db"):
            words = statement.split()
            seen.update(table for table in STATEMENTS if table in words)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.slow
def test_an_idle_gateway_asks_its_database_rarely(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    """However long it is looked at: at a time, and once more after each pause."""
    with receiving() as receiver:
        endpoint = WebhookEndpoint(url=receiver.url, secret=SecretStr(SECRET))
        hooks = WebhooksSettings(endpoints=(endpoint,), allow_private=True)
        settings = gateway_settings(tmp_path, simulator.url).model_copy(update={"webhooks": hooks})
        with (
            asked(tmp_path) as seen,
            running_gateway(settings) as url,
            openai.OpenAI(base_url=f"{url}/v1", api_key="unused") as client,
        ):
            wait_until_ready(url)
            assert run(client, [chat_line("a", "Why?")]).status == "completed"
            receiver.wait(1)
            assert all(seen[table] for table in STATEMENTS), "what it does is counted"
            # What has just ended is looked after once or twice more: nobody is told when.
            before, since = Counter(seen), time.monotonic()
            while (spent_s := time.monotonic() - since) < 2 * LOOK_S:
                time.sleep(0.1)
            found = {table: seen[table] - before[table] for table in STATEMENTS}
    for table, statements in STATEMENTS.items():
        assert found[table] <= statements * (2 + spent_s / LOOK_S), found
