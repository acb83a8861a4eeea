"""The engine with its tier on disk and in Redis: damage, death, restart and silence.

On the rig that test_engine_tiers.py uses too; each test leaves it healthy.
"""

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.guard.real import (
    CHUNK_TOKENS,
    DEADLINE_S,
    Answer,
    Engine,
    Tier,
    eventually,
    random_ids,
    settled,
)
from tests.deploy.guard.rig import PROMPT_TOKENS, STORED_TOKENS, Rig

pytestmark = pytest.mark.engine

STORED_CHUNKS = STORED_TOKENS // CHUNK_TOKENS
# The same sums in another order: what recomputing only a suffix may change.
TOLERANCE = 1e-4

Damage = Callable[[bytes, bytes], bytes]


def flip(stored: bytes, other: bytes) -> bytes:
    """One bit, in the middle."""
    return stored[:5000] + bytes([stored[5000] ^ 1]) + stored[5001:]


def swap(stored: bytes, other: bytes) -> bytes:
    """Another chunk's object in this one's place."""
    return other


def cut(stored: bytes, other: bytes) -> bytes:
    """Only the beginning."""
    return stored[:1000]


@pytest.fixture
def disk(rig: Rig) -> Path:
    return rig.disk


@pytest.fixture
def tier(rig: Rig) -> Tier:
    return rig.tier


@pytest.fixture
def guarded(rig: Rig) -> Engine:
    return rig.engine


@pytest.fixture(autouse=True)
def _healthy(guarded: Engine, tier: Tier) -> None:
    """Whatever the test before did, this one starts with a tier that is used."""
    if tier.process.popen is not None and tier.process.popen.poll() is not None:
        tier.start()
    settled(guarded)


@pytest.fixture(scope="module")
def plain(
    guard_python: str, guard_model: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    engine = Engine(guard_python, guard_model, tmp_path_factory.mktemp("plain"), None)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


@pytest.fixture
def store(rig: Rig) -> Any:
    return rig.redis


def chunk_in(name: str) -> str:
    """The chunk hash in a file's name or a Redis key: both are `model@rank@group@hash`."""
    return name.removesuffix(".data").split("@")[3]


def on_disk(disk: Path) -> dict[str, Path]:
    """Files by chunk hash."""
    return {chunk_in(path.name): path for path in disk.rglob("*.data")}


def in_redis(store: Any) -> dict[str, bytes]:
    """Keys by chunk hash."""
    return {chunk_in(key.decode()): key for key in store.scan_iter()}


def ask_new_prompt(engine: Engine, disk: Path, store: Any) -> tuple[list[int], Answer, list[str]]:
    """A cold answer and its chunks' hashes, once all are on disk and in Redis."""
    before = set(on_disk(disk))
    ids = random_ids(PROMPT_TOKENS)
    cold = engine.ask(ids)
    assert (cold.device, cold.storage) == (0, 0)
    assert eventually(lambda: len(set(on_disk(disk)) - before) == STORED_CHUNKS, 60)
    chunks = set(on_disk(disk)) - before
    assert eventually(lambda: chunks <= set(in_redis(store)), 60)
    return ids, cold, sorted(chunks)


def ask_without_memory(engine: Engine, tier: Tier, ids: list[int]) -> Answer:
    """An answer whose prefix can only come from disk or Redis."""
    tier.forget_memory()
    engine.flush()
    return engine.ask(ids)


def test_a_prefix_comes_back_from_memory_disk_and_redis_with_equal_logprobs(
    guarded: Engine, tier: Tier, disk: Path, store: Any
) -> None:
    ids, cold, chunks = ask_new_prompt(guarded, disk, store)

    device = guarded.ask(ids)
    guarded.flush()
    memory = guarded.ask(ids)
    from_disk = ask_without_memory(guarded, tier, ids)
    for chunk in chunks:
        on_disk(disk)[chunk].unlink()
    from_redis = ask_without_memory(guarded, tier, ids)

    assert device.device > STORED_TOKENS
    assert [a.storage for a in (memory, from_disk, from_redis)] == [STORED_TOKENS] * 3
    for answer in (device, memory, from_disk, from_redis):
        assert answer.differs_from(cold) < TOLERANCE


@pytest.mark.parametrize("damage", [flip, swap, cut])
def test_a_damaged_file_is_never_served_and_does_not_stay(
    guarded: Engine, tier: Tier, disk: Path, store: Any, damage: Damage
) -> None:
    ids, cold, chunks = ask_new_prompt(guarded, disk, store)
    victim, other = (on_disk(disk)[chunk] for chunk in chunks[:2])
    damaged = damage(victim.read_bytes(), other.read_bytes())
    victim.write_bytes(damaged)

    hurt = ask_without_memory(guarded, tier, ids)

    assert hurt.storage < STORED_TOKENS
    assert hurt.differs_from(cold) < TOLERANCE
    assert eventually(lambda: victim.exists() and victim.read_bytes() != damaged, 60)
    healed = ask_without_memory(guarded, tier, ids)
    assert healed.storage == STORED_TOKENS
    assert healed.differs_from(cold) < TOLERANCE


@pytest.mark.parametrize("damage", [flip, swap, cut])
def test_a_damaged_redis_value_is_never_served_and_does_not_stay(
    guarded: Engine, tier: Tier, disk: Path, store: Any, damage: Damage
) -> None:
    ids, cold, chunks = ask_new_prompt(guarded, disk, store)
    victim, other = (in_redis(store)[chunk] for chunk in chunks[:2])
    damaged = damage(store.get(victim), store.get(other))
    store.set(victim, damaged)
    for chunk in chunks:
        on_disk(disk)[chunk].unlink()

    hurt = ask_without_memory(guarded, tier, ids)

    assert hurt.storage < STORED_TOKENS
    assert hurt.differs_from(cold) < TOLERANCE
    assert eventually(lambda: store.get(victim) not in (None, damaged), 60)
    healed = ask_without_memory(guarded, tier, ids)
    assert healed.storage == STORED_TOKENS
    assert healed.differs_from(cold) < TOLERANCE


def test_neither_disk_nor_redis_holds_kv_in_the_clear(
    guarded: Engine, disk: Path, store: Any
) -> None:
    _, _, chunks = ask_new_prompt(guarded, disk, store)
    frames = [on_disk(disk)[chunk].read_bytes() for chunk in chunks]
    frames += [store.get(in_redis(store)[chunk]) for chunk in chunks]

    # KV in float32 repeats its exponent bytes; what is sealed has every byte about equally often.
    for frame in frames:
        counts = [frame.count(bytes([value])) for value in range(256)]
        assert max(counts) < 2 * statistics.mean(counts)


def test_a_dead_tier_costs_nothing(guarded: Engine, plain: Engine, tier: Tier) -> None:
    os.kill(tier.process.pid, signal.SIGKILL)
    tier.process.kill()
    first = guarded.ask(random_ids(PROMPT_TOKENS))
    assert first.storage == 0
    assert eventually(lambda: guarded.metric("foreword_tier_open") == 1, 60)

    # Other processes on the machine make one round say little; a tier that is waited for fails all.
    rounds = []
    for _ in range(3):
        rounds.append(extra_costs(guarded, plain))
        if max(rounds[-1]) <= DEADLINE_S / 2:
            break
    assert max(rounds[-1]) <= DEADLINE_S / 2, rounds


def extra_costs(guarded: Engine, plain: Engine) -> tuple[float, float]:
    """Medians of what a cold prompt and a device hit take longer with the guard, seconds."""
    cold, hit = [], []
    for turn in range(7):
        prompt = random_ids(PROMPT_TOKENS)
        for costs in (cold, hit):
            engines = [guarded, plain] if turn % 2 else [plain, guarded]
            elapsed_s = {engine.port: engine.ask(prompt).elapsed_s for engine in engines}
            costs.append(elapsed_s[guarded.port] - elapsed_s[plain.port])
    return statistics.median(cold), statistics.median(hit)


def test_after_a_restart_hits_come_back_within_three_requests_and_a_flush(
    guarded: Engine, tier: Tier, disk: Path, store: Any
) -> None:
    ids, cold, _ = ask_new_prompt(guarded, disk, store)

    os.kill(tier.process.pid, signal.SIGKILL)
    tier.process.kill()
    guarded.ask(random_ids(PROMPT_TOKENS))
    tier.start()
    for _ in range(3):
        guarded.ask(ids)
    guarded.flush()
    back = guarded.ask(ids)

    assert back.device == 0
    assert back.storage == STORED_TOKENS
    assert back.differs_from(cold) < TOLERANCE


def test_a_restart_is_noticed_without_any_request(
    guarded: Engine, tier: Tier, disk: Path, store: Any
) -> None:
    ids, cold, _ = ask_new_prompt(guarded, disk, store)
    registrations = guarded.metric("foreword_tier_registrations_total")

    tier.process.kill()
    tier.start()

    assert eventually(
        lambda: guarded.metric("foreword_tier_registrations_total") == registrations + 1, 60
    )
    settled(guarded)
    guarded.flush()
    back = guarded.ask(ids)
    assert back.storage == STORED_TOKENS
    assert back.differs_from(cold) < TOLERANCE


def test_a_silent_tier_is_waited_for_only_once_and_let_go_of_afterwards(
    guarded: Engine, tier: Tier, disk: Path, store: Any
) -> None:
    ids, cold, _ = ask_new_prompt(guarded, disk, store)
    guarded.flush()
    others = [random_ids(800) for _ in range(2)]
    expected = [guarded.ask(prompt) for prompt in others]
    time.sleep(1)
    guarded.flush()

    tier.process.signal(signal.SIGSTOP)
    try:
        late = guarded.ask(ids)
        assert eventually(lambda: guarded.metric("foreword_tier_open") == 1, 60)
        meanwhile = [guarded.ask(prompt) for prompt in others]
    finally:
        tier.process.signal(signal.SIGCONT)
    settled(guarded)
    afterwards = [guarded.ask(prompt) for prompt in [ids, *others]]

    assert late.storage == 0
    for answer, reference in zip(
        [late, *meanwhile, *afterwards], [cold, *expected, cold, *expected], strict=True
    ):
        assert answer.differs_from(reference) < TOLERANCE
    assert all(answer.device > 0 for answer in afterwards)
    assert eventually(lambda: locked_chunks(tier) == 0, 60), tier.log()[-3000:]


def locked_chunks(tier: Tier) -> int:
    """Chunks in memory that somebody still holds, by LMCache's own /status."""
    status = tier.status()["storage_manager"]
    found = [value for key, value in flatten(status) if key == "read_locked_count"]
    assert found
    return int(sum(found))


def flatten(node: Any) -> Iterator[tuple[str, Any]]:
    """Every key and value of a nested JSON object."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from flatten(value)
        else:
            yield str(key), value
