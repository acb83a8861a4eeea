"""A batch of 1,000 lines over 20 shared prefixes, on an engine that holds four of them."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.batches.requests import CHAT, chat_line, ended, read, upload
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PREFIXES, LINES, WORDS = 20, 1000, 120


@pytest.fixture
def engine(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=tokenizer_folder, capacity_tokens=2048, clock=ClockConfig(speedup=50)
    )
    with SimulatorThread(config) as running:
        yield running


def lines_of(salt: str) -> list[bytes]:
    chance = random.Random(8)
    words = [f"{chance.choice('bcdfgk')}{chance.choice('aeiou')}{n % 10}" for n in range(500)]
    systems = [f"{salt} {n} " + " ".join(chance.choices(words, k=WORDS)) for n in range(PREFIXES)]
    lines = [
        chat_line(f"{n}", f"Question {n}?", system=systems[n % PREFIXES]) for n in range(LINES)
    ]
    chance.shuffle(lines)
    return lines


def reused(bodies: list[dict[str, Any]]) -> tuple[int, int]:
    """Cached tokens, and prompt tokens."""
    usages = [body["usage"] for body in bodies]
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    return cached, sum(usage["prompt_tokens"] for usage in usages)


def test_prefix_order_gets_what_can_be_got(engine: SimulatorThread, tmp_path: Path) -> None:
    settings = gateway_settings(tmp_path, engine.url)
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client,
    ):
        wait_until_ready(url)
        made = client.batches.create(
            input_file_id=upload(client, lines_of("one")), endpoint=CHAT, completion_window="24h"
        )
        batch = ended(client, made.id, within_s=200)
        assert batch.request_counts is not None
        assert batch.request_counts.completed == LINES
        answers = [each["response"]["body"] for each in read(client, batch.output_file_id)]
        in_order, prompts = reused(answers)

        def ask(line: bytes) -> dict[str, Any]:
            return client.chat.completions.create(**orjson.loads(line)["body"]).to_dict()

        with ThreadPoolExecutor(settings.batches.concurrent) as pool:
            in_files_order, _ = reused(list(pool.map(ask, lines_of("two"))))
    ideal = could_be(lines_of("one"), answers)
    assert in_order >= 0.95 * ideal, (in_order, in_files_order, ideal, prompts)
    assert in_files_order <= 0.4 * ideal, (in_order, in_files_order, ideal, prompts)
    print(f"{in_order / ideal:.1%} of ideal; in the file's order {in_files_order / ideal:.1%}")  # noqa: T201


def could_be(lines: list[bytes], answers: list[dict[str, Any]]) -> int:
    """Tokens that an engine would have re-used that forgets nothing: of each prefix, what its best
    line did, for all but one.
    """
    best: dict[str, list[int]] = {}
    for line, body in zip(lines, answers, strict=True):
        system = orjson.loads(line)["body"]["messages"][0]["content"]
        cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
        best.setdefault(system, []).append(cached)
    assert len(best) == PREFIXES
    return sum(max(of_one) * (len(of_one) - 1) for of_one in best.values())
