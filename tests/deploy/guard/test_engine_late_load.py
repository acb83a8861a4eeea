"""Another process writes into the engine's KV pages, late: nobody else's answer changes.

LMCache's server writes into the pages itself, as on a GPU (shared_pool.py), and its loads wait
for a gate (slow_tier.py). The pool is so small that the next requests need every page.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.deploy.guard.real import Answer, Engine, Tier, eventually, random_ids, settled

pytestmark = pytest.mark.engine

PROMPT_TOKENS = 1000
STORED_TOKENS = 960
POOL_TOKENS = 3200
TOLERANCE = 1e-4
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, no load goes on."""
    return tmp_path_factory.mktemp("gate") / "closed"


@pytest.fixture(scope="module")
def tier(guard_python: str, gate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    tier = Tier(
        guard_python,
        tmp_path_factory.mktemp("tier"),
        adapters=[],
        program=[str(HERE / "slow_tier.py")],
        environment={"FOREWORD_TEST_GATE": str(gate)},
    )
    try:
        tier.start()
        yield tier
    finally:
        tier.close()


@pytest.fixture(scope="module")
def shared(
    guard_python: str, guard_model: str, tier: Tier, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    engine = Engine(
        guard_python,
        guard_model,
        tmp_path_factory.mktemp("engine"),
        tier,
        transfer_mode="lmcache_driven",
        pool_tokens=POOL_TOKENS,
        environment={"PYTHONPATH": plugin_folder(tmp_path_factory.mktemp("plugin"))},
    )
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


def plugin_folder(folder: Path) -> str:
    """A search path with shared_pool.py as an installed SGLang plugin."""
    shutil.copy(HERE / "shared_pool.py", folder / "foreword_shared_pool.py")
    metadata = folder / "foreword_shared_pool-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: foreword-shared-pool\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[sglang.srt.plugins]\nforeword_shared_pool = foreword_shared_pool:register\n"
    )
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def ask_and_store(engine: Engine, tier: Tier) -> tuple[list[int], Answer]:
    """A cold answer whose prefix the tier has, and gives back with equal logprobs."""
    settled(engine)
    ids = random_ids(PROMPT_TOKENS)
    cold = engine.ask(ids)

    def comes_back() -> bool:
        engine.flush()
        answer = engine.ask(ids)
        assert answer.differs_from(cold) < TOLERANCE
        return answer.storage == STORED_TOKENS

    assert eventually(comes_back, 60)
    engine.flush()
    return ids, cold


def test_a_late_load_never_touches_pages_given_to_another_request(
    shared: Engine, tier: Tier, gate: Path
) -> None:
    ids, cold = ask_and_store(shared, tier)
    others = [random_ids(PROMPT_TOKENS) for _ in range(3)]

    gate.touch()
    late = shared.ask(ids)
    assert eventually(lambda: shared.metric("foreword_tier_held_loads") == 1, 60)
    # Together they don't fit: what the late request used itself is evicted and given away too.
    before = [shared.ask(others[0])]
    with ThreadPoolExecutor() as pool:
        before += pool.map(shared.ask, others[1:])
    gate.unlink()
    assert eventually(lambda: shared.metric("foreword_tier_held_loads") == 0, 60)
    after = [shared.ask(prompt) for prompt in reversed(others)][::-1]

    assert late.storage == 0
    assert late.differs_from(cold) < TOLERANCE
    assert after[-1].device > 0
    settled(shared)
    shared.flush()
    tier.forget_memory()
    alone = [shared.ask(prompt) for prompt in others]
    assert [answer.storage for answer in alone] == [0, 0, 0]
    for answers in zip(before, after, alone, strict=True):
        assert max(answer.differs_from(answers[2]) for answer in answers) < TOLERANCE


def test_pages_held_for_a_tier_that_dies_come_back(shared: Engine, tier: Tier, gate: Path) -> None:
    ids, cold = ask_and_store(shared, tier)

    gate.touch()
    late = shared.ask(ids)
    assert eventually(lambda: shared.metric("foreword_tier_held_loads") == 1, 60)
    tier.process.kill()

    assert eventually(lambda: shared.metric("foreword_tier_held_loads") == 0, 60)
    shared.flush()
    assert late.differs_from(cold) < TOLERANCE
    assert shared.ask(ids).differs_from(cold) < TOLERANCE
    gate.unlink()
    tier.start()
    settled(shared)


def test_chunks_that_were_reserved_and_never_written_are_not_offered(
    tier: Tier, guard_python: str
) -> None:
    finished = subprocess.run(
        [guard_python, str(HERE / "abandoned_store.py"), f"127.0.0.1:{tier.port}"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout.split()[-1] == "0"
