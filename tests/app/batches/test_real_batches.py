"""On the real engine: a batch in prefix order re-uses what can be re-used of it."""

import uuid
from pathlib import Path

import openai
import orjson
import pytest

from tests.app.batches.requests import CHAT, chat_line, ended, read, upload
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

PREFIXES, LINES = 5, 60


def test_prefix_order_re_uses_what_the_prefixes_share(engine: RealEngine, tmp_path: Path) -> None:
    name = uuid.uuid4().hex
    systems = [f"{name} {n} " + f"The ferry {n} leaves. " * 60 for n in range(PREFIXES)]
    # In the file the lines of one prefix are as far apart as they can be.
    lines = [chat_line(f"{n}", f"Pier {n}?", system=systems[n % PREFIXES]) for n in range(LINES)]
    settings = gateway_settings(tmp_path, engine.url, tokenizer=engine.model_path)
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client,
    ):
        wait_until_ready(url)
        made = client.batches.create(
            input_file_id=upload(client, lines), endpoint=CHAT, completion_window="24h"
        )
        batch = ended(client, made.id, within_s=240)
        assert batch.error_file_id is None
        answers = [each["response"]["body"] for each in read(client, batch.output_file_id)]
    cached: dict[str, list[int]] = {}
    for line, body in zip(lines, answers, strict=True):
        system = orjson.loads(line)["body"]["messages"][0]["content"]
        cached.setdefault(system, []).append(
            body["usage"]["prompt_tokens_details"]["cached_tokens"]
        )
    # Of each prefix, what its best line re-used, for all of its lines but the first.
    ideal = sum(max(of_one) * (len(of_one) - 1) for of_one in cached.values())
    assert len(cached) == PREFIXES
    assert min(max(of_one) for of_one in cached.values()) > 200, "the prefixes are worth it"
    assert sum(map(sum, cached.values())) >= 0.95 * ideal
