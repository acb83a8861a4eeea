"""RAM, SSD and Redis below a real engine: told apart, switched, slow, full, gone, destroyed.

On the rig that test_engine_tier.py uses too; each test leaves it healthy.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.deploy.guard.real import CHUNK_TOKENS, eventually, random_ids, settled, tail_of
from tests.deploy.guard.rig import PROMPT_TOKENS, SERDE, STORED_TOKENS, Rig
from tests.deploy.guard.slow_link import SlowLink

pytestmark = pytest.mark.engine

# The same sums in another order: what recomputing only a suffix may change.
TOLERANCE = 1e-4
# A look-up's and a load's deadline, and what a machine with other work takes beyond.
LOOKUP_MS, LOAD_MS, SLACK_MS = 300, 600, 2000


@pytest.fixture(autouse=True)
def _healthy(rig: Rig) -> None:
    """Whatever the test before did, this one starts with tiers that are used."""
    rig.link.mend()
    settled(rig.engine)
    assert eventually(lambda: states(rig) == ("ok", "ok"), 60), states(rig)


@pytest.fixture
def salt() -> str:
    return secrets.token_hex(16)


def states(rig: Rig) -> tuple[str, str]:
    return rig.tier.adapter("ssd")["state"], rig.tier.adapter("redis")["state"]


def test_an_engine_starts_without_its_tier_and_uses_it_when_it_comes(rig: Rig, salt: str) -> None:
    assert rig.was_open_without
    assert (rig.answered_without.device, rig.answered_without.storage) == (0, 0)
    assert "starts without it" in tail_of(rig.engine)

    ids, cold = rig.new_prompt(salt)
    rig.engine.flush()
    back, load, _ = rig.ask(ids, salt)

    assert back.storage == STORED_TOKENS
    assert load["ram"] == STORED_TOKENS
    assert back.differs_from(cold) < TOLERANCE


def test_each_tier_is_told_apart_for_each_request(rig: Rig, salt: str) -> None:
    ids, cold = rig.new_prompt(salt)
    served = {}

    rig.engine.flush()
    served["ram"] = rig.ask(ids, salt)
    rig.forget()
    served["ssd"] = rig.ask(ids, salt)
    rig.forget()
    rig.tier.switch("ssd", enabled=False)
    try:
        served["redis"] = rig.ask(ids, salt)
    finally:
        rig.tier.switch("ssd", enabled=True)

    for name, (answer, load, _) in served.items():
        assert answer.storage == STORED_TOKENS
        assert {tier: load[tier] for tier in served} == dict.fromkeys(served, 0) | {
            name: STORED_TOKENS
        }
        assert answer.differs_from(cold) < TOLERANCE


def test_one_load_may_come_from_two_tiers(rig: Rig, salt: str) -> None:
    ids, cold = rig.new_prompt(salt)
    files = sorted(path for path in rig.disk.rglob("*.data") if salt in path.name)
    for path in files[::2]:
        path.unlink()
    rig.forget()

    answer, load, _ = rig.ask(ids, salt)

    assert answer.storage == STORED_TOKENS
    assert load["redis"] == len(files[::2]) * CHUNK_TOKENS
    assert load["ssd"] == STORED_TOKENS - load["redis"]
    assert answer.differs_from(cold) < TOLERANCE


def test_what_the_engine_held_itself_does_not_count(rig: Rig, salt: str) -> None:
    ids, _ = rig.new_prompt(salt)
    rig.engine.flush()
    rig.engine.ask(ids[:120], salt=salt)

    answer, load, _ = rig.ask(ids, salt)

    assert answer.device == 112
    assert (load["start"], load["stop"]) == (112, STORED_TOKENS)
    assert load["ram"] + load["ssd"] + load["redis"] == answer.storage == STORED_TOKENS - 112


def test_a_request_that_loaded_nothing_is_not_known(rig: Rig, salt: str) -> None:
    _, load, _ = rig.ask(random_ids(PROMPT_TOKENS), salt)

    assert load == {}
    assert rig.tier.load_of("nobody") is None


def test_an_adapter_that_is_off_is_not_asked_and_is_stored_into(rig: Rig, salt: str) -> None:
    rig.tier.switch("redis", enabled=False)
    try:
        before = rig.tier.adapter("redis")
        rig.new_prompt(salt)
        after = rig.tier.adapter("redis")
    finally:
        rig.tier.switch("redis", enabled=True)

    assert (after["state"], after["reason"]) == ("off", "slower than recomputing")
    assert after["lookups"]["tasks"] == before["lookups"]["tasks"]
    assert after["lookups"]["skipped"] > before["lookups"]["skipped"]
    unknown = httpx.put(f"{rig.tier.url}/foreword/adapters/tape", json={"enabled": True})
    assert unknown.status_code == 404


def delayed(link: SlowLink) -> None:
    link.delay_s = 0.5


def silent(link: SlowLink) -> None:
    link.silent = True


def cut(link: SlowLink) -> None:
    link.cut = True


@pytest.mark.parametrize("hurt", [delayed, silent, cut])
def test_a_redis_that_is_slow_silent_or_gone_costs_one_request_its_deadline_at_most(
    rig: Rig, salt: str, hurt: Callable[[SlowLink], None]
) -> None:
    ids, cold = rig.new_prompt(salt)
    rig.forget()

    hurt(rig.link)
    first, first_load, first_id = rig.ask(ids, salt)
    failing = rig.tier.adapter("redis")
    rig.forget()
    second, second_load, _ = rig.ask(ids, salt)
    fresh = rig.engine.ask(random_ids(PROMPT_TOKENS), salt=salt)

    assert first.storage == second.storage == STORED_TOKENS
    assert first_load["ssd"] == second_load["ssd"] == STORED_TOKENS
    assert failing["state"] == "failing", failing
    assert rig.tier.waited_ms(first_id) < LOOKUP_MS + SLACK_MS
    assert rig.tier.adapter("redis")["lookups"]["skipped"] > failing["lookups"]["skipped"]
    assert fresh.storage == 0
    for answer in (first, second):
        assert answer.differs_from(cold) < TOLERANCE
    rig.link.mend()
    assert eventually(lambda: rig.tier.adapter("redis")["state"] == "ok", 60)


def test_a_redis_that_answers_and_then_sends_slowly_is_given_up(rig: Rig, salt: str) -> None:
    ids, cold = rig.new_prompt(salt)
    rig.forget()
    late, told = rig.tier.adapter("redis")["loads"]["late"], len(rig.tier.log())
    rig.tier.switch("ssd", enabled=False)
    try:
        for _ in range(5):
            rig.link.value_delay_s = 0.2
            answer, _, _ = rig.ask(ids, salt)
            if rig.tier.adapter("redis")["loads"]["late"] > late:
                break
            # On a busy machine the look-up was late, and so there was no load.
            rig.link.mend()
            assert eventually(lambda: rig.tier.adapter("redis")["state"] == "ok", 60)
            rig.forget()
    finally:
        rig.tier.switch("ssd", enabled=True)

    assert answer.storage == 0
    assert answer.differs_from(cold) < TOLERANCE
    assert rig.tier.adapter("redis")["loads"]["late"] == late + 1
    # By now it may be in use again.
    assert "redis is skipped: a load took more than 0.6 s" in rig.tier.log()[told:]
    assert answer.elapsed_s < cold.elapsed_s + (LOOKUP_MS + LOAD_MS + 2 * SLACK_MS) / 1000


def test_a_full_redis_stores_nothing_and_serves_what_it_has(rig: Rig, salt: str) -> None:
    ids, cold = rig.new_prompt(salt)
    rig.redis.config_set("maxmemory-policy", "noeviction")
    rig.redis.config_set("maxmemory", "1mb")
    try:
        rig.engine.ask(random_ids(PROMPT_TOKENS), salt=salt)
        assert eventually(lambda: rig.tier.adapter("redis")["state"] == "failing", 60)
        reason = rig.tier.adapter("redis")["reason"]
        rig.forget()
        rig.tier.switch("ssd", enabled=False)
        answer, load, _ = rig.ask(ids, salt)
    finally:
        rig.tier.switch("ssd", enabled=True)
        rig.redis.config_set("maxmemory", "0")

    assert reason.startswith("nothing is stored: Redis refused a value: -OOM")
    assert load["redis"] == answer.storage == STORED_TOKENS
    assert answer.differs_from(cold) < TOLERANCE
    again = random_ids(PROMPT_TOKENS)
    assert eventually(lambda: stores_again(rig, "redis", again, salt), 60)


def test_a_disk_that_is_gone_leaves_the_others_working(rig: Rig, salt: str) -> None:
    away = rig.disk.with_name("away")
    rig.disk.rename(away)
    rig.disk.touch()
    try:
        ids = random_ids(PROMPT_TOKENS)
        before = rig.tier.adapter("redis")["stores"]
        cold = rig.engine.ask(ids, salt=salt)
        assert eventually(lambda: rig.tier.adapter("ssd")["state"] == "failing", 60)
        chunks = STORED_TOKENS // CHUNK_TOKENS
        assert eventually(lambda: rig.grew("redis", before, chunks), 60)
        rig.forget()
        answer, load, request_id = rig.ask(ids, salt)
    finally:
        rig.disk.unlink()
        away.rename(rig.disk)

    assert load["redis"] == answer.storage == STORED_TOKENS
    assert answer.differs_from(cold) < TOLERANCE
    assert rig.tier.waited_ms(request_id) < LOOKUP_MS + LOAD_MS + SLACK_MS
    again = random_ids(PROMPT_TOKENS)
    assert eventually(lambda: stores_again(rig, "ssd", again, salt), 60)


def stores_again(rig: Rig, name: str, ids: list[int], salt: str) -> bool:
    """Ask once more; whether an adapter takes chunks again."""
    ids[:] = random_ids(PROMPT_TOKENS)
    rig.engine.ask(ids, salt=salt)
    time.sleep(0.3)
    return bool(rig.tier.adapter(name)["state"] == "ok")


def test_what_a_destroyed_salt_stored_is_never_served_again(rig: Rig, salt: str) -> None:
    ids, cold = rig.new_prompt(salt)
    other = secrets.token_hex(16)
    other_ids, _ = rig.new_prompt(other)

    for no_salt in ("", "a"):
        refused = httpx.delete(f"{rig.tier.url}/foreword/salts/{no_salt}")
        assert (refused.status_code, "no salt" in refused.json()["detail"]) == (422, True)
    rig.tier.destroy_salt(salt)
    rig.engine.flush()
    after, _, _ = rig.ask(ids, salt)
    rig.engine.flush()
    again, _, _ = rig.ask(ids, salt)
    rig.tier.process.kill()
    rig.tier.start()
    settled(rig.engine)
    rig.engine.flush()
    restarted, _, _ = rig.ask(ids, salt)
    kept, _, _ = rig.ask(other_ids, other)

    assert [answer.storage for answer in (after, again, restarted)] == [0, 0, 0]
    assert kept.storage == STORED_TOKENS
    for answer in (after, again, restarted):
        assert answer.differs_from(cold) < TOLERANCE
    keys = rig.tier.key_file.with_name("kv.keys")
    assert len(list(keys.glob("*.gone"))) == 1


def test_a_prompt_whose_new_key_takes_the_disk_long_is_stored_at_last_and_delays_no_other(
    rig: Rig, salt: str
) -> None:
    gate = rig.tier.home / "gate"
    rig.new_prompt(salt)
    with slow_to_take_keys(rig, gate):
        gate.touch()
        before = [rig.tier.adapter(name)["stores"] for name in ("ssd", "redis")]
        new_salt, ids = secrets.token_hex(16), random_ids(PROMPT_TOKENS)
        cold = rig.engine.ask(ids, salt=new_salt)
        rig.new_prompt(salt)
        waiting = [path for path in rig.disk.rglob("*.data") if new_salt in path.name]
        gate.unlink()
        chunks = 2 * STORED_TOKENS // CHUNK_TOKENS
        for name, stores in zip(("ssd", "redis"), before, strict=True):
            assert eventually(lambda name=name, was=stores: rig.grew(name, was, chunks), 60)
            assert rig.tier.adapter(name)["stores"]["failed"] == 0
        rig.forget()
        answer, load, _ = rig.ask(ids, new_salt)

    assert waiting == []
    assert load["ssd"] == answer.storage == STORED_TOKENS
    assert answer.differs_from(cold) < TOLERANCE


def test_a_prompt_whose_key_cant_be_made_is_counted_and_told_and_stops_no_other(
    rig: Rig, salt: str
) -> None:
    rig.new_prompt(salt)
    keys = rig.tier.key_file.with_name("kv.keys")
    away = keys.with_name("away.keys")
    keys.rename(away)
    keys.touch()
    try:
        rig.engine.ask(random_ids(PROMPT_TOKENS), salt=secrets.token_hex(16))
        assert eventually(lambda: states(rig) == ("failing", "failing"), 60)
        for name in ("ssd", "redis"):
            told = rig.tier.adapter(name)
            assert told["reason"].startswith("not all is stored: The salt key ")
            assert told["stores"]["failed"] >= STORED_TOKENS // CHUNK_TOKENS
        rig.new_prompt(salt)
    finally:
        keys.unlink()
        away.rename(keys)

    assert states(rig) == ("ok", "ok")


@contextmanager
def slow_to_take_keys(rig: Rig, gate: Path) -> Iterator[None]:
    """Another program as the tier server meanwhile, with the same disk and keys."""
    usual = rig.tier.program
    rig.tier.program = [str(Path(__file__).parent / "slow_keys.py")]
    rig.tier.environment["FOREWORD_TEST_GATE"] = str(gate)
    rig.tier.process.kill()
    rig.tier.start()
    try:
        settled(rig.engine)
        yield
    finally:
        gate.unlink(missing_ok=True)
        rig.tier.program = usual
        rig.tier.process.kill()
        rig.tier.start()


def test_a_lossy_serde_stores_less_and_answers_nearly_the_same(rig: Rig, salt: str) -> None:
    ids, cold = rig.new_prompt(salt, ids=same_ids_each_time())
    whole = sizes_of(rig, salt)
    exact = json.dumps(rig.tier.adapters)
    lossy_salt = secrets.token_hex(16)
    for adapter in rig.tier.adapters:
        adapter["serde"] = SERDE | {"inner": "fp8"}
    rig.tier.process.kill()
    rig.tier.start()
    settled(rig.engine)
    try:
        rig.engine.flush()
        refused, _, _ = rig.ask(ids, salt)
        rig.engine.flush()
        same = rig.engine.ask(ids, salt=lossy_salt)
        assert eventually(lambda: len(sizes_of(rig, lossy_salt)) == len(whole), 60)
        rig.forget()
        answer, load, _ = rig.ask(ids, lossy_salt)
    finally:
        rig.tier.adapters[:] = json.loads(exact)
        rig.tier.process.kill()
        rig.tier.start()

    assert refused.storage == 0, "what another serde wrote is not served"
    assert load["ssd"] == answer.storage == STORED_TOKENS
    assert max(sizes_of(rig, lossy_salt)) < 0.26 * min(whole)
    assert same.differs_from(cold) < TOLERANCE
    # Each prompt's own: over random prompts, a model of random weights gave 0.02 to 0.27.
    assert 0 < answer.differs_from(cold) < 0.2


def same_ids_each_time() -> list[int]:
    numbers = random.Random(7)
    return [10 + numbers.randrange(4000) for _ in range(PROMPT_TOKENS)]


def sizes_of(rig: Rig, salt: str) -> list[int]:
    return [path.stat().st_size for path in rig.disk.rglob("*.data") if salt in path.name]
