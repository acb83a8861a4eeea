"""The real engine computes what HF transformers computes, wherever its KV came from.

The engine's log-probabilities are compared with a plain forward of the same weights by HF
transformers, for KV that was just computed, found on the device, brought back from HiCache's host
pool, and loaded from LMCache.
"""

import random
from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import RealEngine
from tests.deploy.cpu.real import Answer, Engine, Reference, ask, largest_difference
from tests.engines import flush

pytestmark = pytest.mark.engine

TOLERANCE = 1e-4
PROMPT_TOKENS = 700
POOL_TOKENS = 4096


def random_ids(seed: int, count: int = PROMPT_TOKENS) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(300, 4000) for _ in range(count)]


@pytest.fixture(scope="module")
def transformers(cpu_python: str, cpu_model: str) -> Iterator[Reference]:
    process = Reference(cpu_python, cpu_model)
    yield process
    process.close()


def assert_parity(transformers: Reference, *answers: Answer) -> None:
    differences = [largest_difference(answer, transformers.logprobs(answer)) for answer in answers]
    assert max(differences) < TOLERANCE, differences


@pytest.fixture(scope="module")
def hicache(
    cpu_python: str, cpu_model: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine with a host pool; two long prompts fill its device pool."""
    engine = Engine(
        python=cpu_python,
        model=cpu_model,
        home=tmp_path_factory.mktemp("hicache"),
        pool_tokens=POOL_TOKENS,
        arguments=[
            *("--enable-hierarchical-cache", "--hicache-size", "1"),
            *("--hicache-io-backend", "direct", "--hicache-mem-layout", "page_first_direct"),
        ],
    )
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


def test_cold_and_device_hit_equal_transformers(hicache: Engine, transformers: Reference) -> None:
    prompt = random_ids(1)
    (cold,) = hicache.ask(prompt)
    (warm,) = hicache.ask(prompt)
    (longer,) = hicache.ask(prompt + random_ids(2, 40), new_tokens=20)

    assert cold.cached == {"device": 0, "host": 0, "storage": 0}
    assert warm.cached["device"] > PROMPT_TOKENS - 17
    assert longer.cached["device"] > PROMPT_TOKENS - 17
    assert_parity(transformers, cold, warm, longer)


def test_a_batch_of_unequal_requests_equals_transformers(
    hicache: Engine, transformers: Reference
) -> None:
    shared = random_ids(3, 320)
    hicache.ask(shared)
    prompts = [shared + random_ids(4, 33), random_ids(5, 100), [*shared, 301], [302]]

    assert_parity(transformers, *hicache.ask(*prompts, new_tokens=24))


def test_a_prompt_longer_than_a_chunk_of_prefill_equals_transformers(
    hicache: Engine, transformers: Reference
) -> None:
    (answer,) = hicache.ask(random_ids(6, 3000))

    assert_parity(transformers, answer)


def test_host_hit_equals_transformers(hicache: Engine, transformers: Reference) -> None:
    prompt = random_ids(10)
    hicache.ask(prompt)
    for seed in range(11, 17):
        hicache.ask(random_ids(seed, 1200))

    (restored,) = hicache.ask(prompt)

    assert restored.cached["host"] > PROMPT_TOKENS - 17
    assert restored.cached["device"] == 0
    assert_parity(transformers, restored)


def test_lmcache_hit_equals_transformers(engine: RealEngine, transformers: Reference) -> None:
    prompt = random_ids(20)
    (cold,) = ask(engine.url, prompt)
    flush(engine.url)
    (restored,) = ask(engine.url, prompt)

    assert cold.cached == {"device": 0, "host": 0, "storage": 0}
    assert restored.cached["device"] == 0
    assert restored.cached["storage"] == PROMPT_TOKENS // 64 * 64
    assert_parity(transformers, cold, restored)


def test_the_comparison_sees_one_wrong_page(hicache: Engine, transformers: Reference) -> None:
    """Negative control: the same answer, if one page of its prompt had been another's."""
    prompt = random_ids(30)
    (answer,) = hicache.ask(prompt)
    other_page = [*prompt[:320], *random_ids(31, 16), *prompt[336:]]
    wrong = Answer(
        prompt=other_page, generated=answer.generated, logprobs=answer.logprobs, cached={}
    )

    assert largest_difference(answer, transformers.logprobs(wrong)) > 10 * TOLERANCE


def test_every_process_of_a_forked_engine_reports_metrics(hicache: Engine) -> None:
    hicache.ask(random_ids(40, 50))
    text = httpx.get(hicache.url + "/metrics").text

    assert "sglang:prompt_tokens_total{" in text, "counted by the main process"
    assert "sglang:max_total_num_tokens{" in text, "counted by the scheduler"


def test_sglang_found_every_shim(hicache: Engine) -> None:
    log = hicache.log()

    assert "Failed to execute general plugin" not in log
    assert "Failed to load plugin" not in log
