"""The time to the first token, predicted before a question is sent and measured after it."""

import statistics
from pathlib import Path

import httpx
import pytest

from app.settings import RetrievalSettings
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.modes.asking import ask, collection
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

ROUNDS, SEEN_BEFORE = 22, 8
WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "ivory", "jade")


def town() -> str:
    """A hundred houses, each with words of its own, so that each question finds others."""
    return "\n\n".join(
        f"House {n} in {WORDS[n % 10]} {WORDS[n // 10]} lane has the number {n * 13}."
        for n in range(100)
    )


@pytest.mark.slow
def test_predictions_hold_within_a_quarter(tokenizer_folder: Path, tmp_path: Path) -> None:
    """By the medians of interleaved questions, once both modes were seen. The engine takes as
    long as it says, so that its time outweighs this machine's."""
    config = SimulatorConfig(
        model_path=tokenizer_folder,
        capacity_tokens=60_000,
        context_tokens=30_000,
        clock=ClockConfig(prefill_overhead_s=0.05),
    )
    told: dict[str, list[tuple[float, float]]] = {"rag": [], "cag": []}
    with SimulatorThread(config) as engine:
        settings = gateway_settings(tmp_path, engine.url)
        few = RetrievalSettings(embedder="hashing", chunk_tokens=64, passages=3)
        settings = settings.model_copy(update={"retrieval": few})
        with (
            running_gateway(settings) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
        ):
            wait_until_ready(url)
            collection(http, "town", town())
            for number in range(ROUNDS):
                question = f"What number has house {number * 4} in {WORDS[number * 4 // 10]} lane?"
                for mode, seen in told.items():
                    block = ask(http, "town", question, mode=mode)
                    seen.append((block["predicted_ttft_s"], block["ttft_s"]))
    for mode, seen in told.items():
        late = seen[SEEN_BEFORE:]
        expected, measured = (statistics.median(each) for each in zip(*late, strict=True))
        assert expected == pytest.approx(measured, rel=0.25), mode
