"""The gateway is killed at twenty random moments of a batch; no line is lost, and none doubled."""

import random
import time
from pathlib import Path

import openai
import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.batches.requests import CHAT, chat_line, ended, read, upload
from tests.app.test_shutdown import serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LINES, KILLS = 500, 20


def test_killed_at_random_moments_it_loses_nothing_and_doubles_nothing(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    chance = random.Random(12)
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=4))
    lines = [chat_line(f"q-{n}", f"Question {n}?", max_tokens=30) for n in range(LINES)]
    batch_id, progress = None, list[int]()
    with SimulatorThread(config) as simulator:
        for _ in range(KILLS):
            with (
                serving(tmp_path, simulator.url) as gateway,
                openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client,
            ):
                if batch_id is None:
                    batch_id = client.batches.create(
                        input_file_id=upload(client, lines),
                        endpoint=CHAT,
                        completion_window="24h",
                    ).id
                time.sleep(chance.uniform(0.0, 0.4))
                progress.append(_completed_since(client, batch_id, progress))
                gateway.process.kill()
                gateway.process.wait()
        assert batch_id is not None
        with (
            serving(tmp_path, simulator.url) as gateway,
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client,
        ):
            batch = ended(client, batch_id, within_s=120)
            output = read(client, batch.output_file_id)
            files = client.files.list(purpose="batch_output").data
    assert (batch.status, batch.error_file_id) == ("completed", None)
    assert batch.request_counts is not None
    assert batch.request_counts.completed == LINES
    assert [each["custom_id"] for each in output] == [f"q-{n}" for n in range(LINES)]
    assert [file.id for file in files] == [batch.output_file_id]
    assert progress == sorted(progress), "what was answered stays answered"
    assert len(set(progress)) > KILLS // 4, "the moments were within the batch"


def _completed_since(client: openai.OpenAI, batch_id: str, progress: list[int]) -> int:
    """Lines that are answered: one more, at least, than when the last gateway was killed."""
    deadline = time.monotonic() + 60
    while True:
        batch = client.batches.retrieve(batch_id)
        assert batch.request_counts is not None
        completed = batch.request_counts.completed
        if completed > (progress or [-1])[-1] or batch.status == "completed":
            return completed
        assert time.monotonic() < deadline
        time.sleep(0.02)
