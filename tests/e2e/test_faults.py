"""Parts are killed, slowed down, filled up and damaged while clients ask: what they notice.

On the real SGLang, LMCache and Redis behind a gateway of its own. No request fails that needn't,
no answer differs from the one that a cold engine gave, no ledger row is lost beyond the stated
second, and `/readyz` says what is wrong while it is.
"""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.books import assert_served, told_alike
from tests.e2e.replies import Reply, new_prompt
from tests.e2e.tier_stack import CHUNK_TOKENS, TierStack, eventually
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

RESTART_S = 200.0
# Once a second the gateway writes the rows that wait.
FLUSH_S = 1.0
# What it is writing when it is killed is lost too.
WRITING_S = 2.0
# The gateway looks at the tier server each five seconds.
LOOK_S = 15.0
# Together more than the engine's pool: none of them is still there when its turn comes again.
PROMPTS, PROMPT_WORDS = 10, 240
# The tiers' deadline, and what a machine with other work takes for computing a prompt.
LONGEST_WAIT_S = 1.0 + 29.0
# What the gateway says of requests that can't be answered, because their engine is gone.
ENGINE_AWAY = {"engine_unreachable", "engine_not_ready", "engine_protocol"}


@pytest.fixture(scope="module")
def colds(tier_stack: TierStack) -> Sequence[Reply]:
    """What a cold engine said to the prompts that the clients ask all the time."""
    return tier_stack.all_remembered(PROMPTS, PROMPT_WORDS)


@pytest.fixture(autouse=True)
def _healthy(tier_stack: TierStack) -> None:
    """Whatever the test before did, this one starts with all parts in use."""
    tier_stack.link.mend()
    assert eventually(tier_stack.is_well, 60), tier_stack.ready()


def assert_nobody_noticed(stack: TierStack, traffic: Traffic) -> None:
    """Each request was answered, in time, with what it would have got otherwise, and is written."""
    assert traffic.failures == []
    assert traffic.wrong == []
    assert traffic.slowest_s < LONGEST_WAIT_S
    stack.report()  # has the ledger flushed
    assert {reply.request_id for reply in traffic.replies} <= stack.rows().keys()


def test_a_killed_redis_is_not_missed_and_used_again(
    tier_stack: TierStack, colds: Sequence[Reply]
) -> None:
    with tier_stack.switched_off("ssd"), Traffic(tier_stack, colds) as traffic:
        tier_stack.clear_ram()
        tier_stack.redis.kill()
        assert eventually(lambda: tier_stack.says("the tier redis fails"), 60)
        assert traffic.goes_on(10)
        tier_stack.start_redis()
        assert eventually(lambda: not tier_stack.says("the tier redis fails"), 60)
        assert traffic.goes_on(10)

    assert_nobody_noticed(tier_stack, traffic)


def test_a_redis_that_is_half_a_second_late_is_left_alone(
    tier_stack: TierStack, colds: Sequence[Reply]
) -> None:
    with Traffic(tier_stack, colds) as traffic:
        tier_stack.clear_ram()
        tier_stack.link.delay_s = 0.5
        assert eventually(lambda: tier_stack.says("the tier redis fails"), 60)
        tier_stack.clear_ram()
        assert traffic.goes_on(15)
        tier_stack.link.mend()

    assert_nobody_noticed(tier_stack, traffic)
    assert any(reply.served["ssd"] for reply in traffic.replies)


def test_a_killed_tier_server_is_skipped_and_started_again(
    tier_stack: TierStack, colds: Sequence[Reply]
) -> None:
    with Traffic(tier_stack, colds) as traffic:
        restarts = tier_stack.kill("tier")
        assert eventually(lambda: tier_stack.says("are skipped"), 60)
        assert eventually(lambda: tier_stack.is_back("tier", restarts), RESTART_S)
        before = len(traffic.replies)
        assert traffic.goes_on(2 * PROMPTS)

    assert_nobody_noticed(tier_stack, traffic)
    causes = [reply.block["cause"] for reply in traffic.replies[:before]]
    assert "tier_skipped" in causes
    assert "pool" not in causes, "a larger pool is not what was missing"
    served = [reply.served["ssd"] for reply in traffic.replies[before:]]
    assert any(served), "what the disk kept is loaded by the new tier server"


def test_a_killed_engine_fails_only_what_came_while_it_was_away_and_finds_its_kv_in_each_tier(
    tier_stack: TierStack, colds: Sequence[Reply]
) -> None:
    from_ram, from_ssd, from_redis = tier_stack.all_remembered(3, PROMPT_WORDS)
    rows = len(tier_stack.report() and tier_stack.rows())
    with Traffic(tier_stack, colds) as traffic:
        assert traffic.goes_on(4)
        restarts = tier_stack.kill("engine-0")
        assert eventually(lambda: tier_stack.ready()["status"] == "not ready", 60)
        assert eventually(lambda: tier_stack.is_back("engine-0", restarts), RESTART_S)
        back = time.monotonic()
        assert traffic.goes_on(4)

    assert traffic.wrong == []
    assert {reply.code for reply in traffic.failures} <= ENGINE_AWAY
    assert max(reply.ended for reply in traffic.failures) < back
    assert len(tier_stack.report() and tier_stack.rows()) == rows + len(traffic.replies)
    assert_served(told_alike(tier_stack, from_ram.prompt), from_ram, "ram")
    tier_stack.clear_ram()
    assert_served(told_alike(tier_stack, from_ssd.prompt), from_ssd, "ssd")
    with tier_stack.switched_off("ssd"):
        assert_served(told_alike(tier_stack, from_redis.prompt), from_redis, "redis")


def test_a_killed_gateway_loses_no_row_beyond_the_stated_second(
    tier_stack: TierStack, colds: Sequence[Reply]
) -> None:
    with Traffic(tier_stack, colds) as traffic:
        assert traffic.goes_on(20)
        killed = time.monotonic()
        restarts = tier_stack.kill("gateway")
        assert eventually(lambda: tier_stack.is_back("gateway", restarts), RESTART_S)
        back = time.monotonic()
        assert traffic.goes_on(PROMPTS)

    assert traffic.wrong == []
    assert {reply.code for reply in traffic.failures} <= {None, "engine_not_ready"}
    assert all(killed < reply.ended < back for reply in traffic.failures)
    report, rows = tier_stack.report(), tier_stack.rows()
    answers = [reply for reply in traffic.replies if reply.answered]
    lost = [reply for reply in answers if reply.request_id not in rows]
    assert all(killed - FLUSH_S - WRITING_S < reply.ended < back for reply in lost)
    assert report["total"]["requests"] == len(rows)


def one_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.parametrize("damage", [cut_short, one_bit])
def test_a_damaged_file_is_computed_anew(
    tier_stack: TierStack, damage: Callable[[Path], None]
) -> None:
    before = kv_files(tier_stack)
    cold = tier_stack.remembered(PROMPT_WORDS)
    (file, *_) = kv_files(tier_stack) - before
    damage(file)
    failed = tier_stack.adapter("ssd")["loads"]["failed"]
    tier_stack.forget()

    reply = tier_stack.ask(cold.prompt)
    tier_stack.forget()
    again = tier_stack.ask(cold.prompt)

    assert reply.is_like(cold)
    assert reply.block["cached_tokens"] <= reply.block["ideal_tokens"] - CHUNK_TOKENS
    assert (reply.block["verdict"], reply.block["cause"]) == ("evicted", "tier_lost")
    assert tier_stack.adapter("ssd")["loads"]["failed"] > failed
    told = partial(tier_stack.says, "the tier ssd gave back")
    assert damage is cut_short or eventually(told, LOOK_S)
    assert again.is_like(cold)
    assert again.block["verdict"] in ("hit", "rounding"), again.block


def kv_files(stack: TierStack) -> set[Path]:
    return set(stack.disk.rglob("*.data"))


@contextmanager
def full_disk(stack: TierStack) -> Iterator[None]:
    """A disk tier on which not one chunk has room.

    A small file system is mounted over it; where that isn't allowed, the kernel refuses the tier
    server files of more than a few bytes.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(stack.disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(stack.disk)], check=True)
        return
    pid = stack.running.pids["tier"]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_a_full_disk_stores_nothing_and_the_others_serve(tier_stack: TierStack) -> None:
    with full_disk(tier_stack):
        cold = tier_stack.ask(new_prompt(PROMPT_WORDS))
        assert eventually(lambda: tier_stack.says("the tier ssd fails"), 60)
        tier_stack.forget()
        reply = tier_stack.ask(cold.prompt)

    assert reply.is_like(cold)
    assert reply.served["redis"] > 0
    assert reply.block["verdict"] in ("hit", "rounding"), reply.block
    assert eventually(lambda: stores_on_disk(tier_stack), 60)


def stores_on_disk(stack: TierStack) -> bool:
    """Whether a further prompt is stored there."""
    before = len(kv_files(stack))
    stack.ask(new_prompt(PROMPT_WORDS))
    return eventually(lambda: len(kv_files(stack)) > before, 1)


def test_adapters_that_are_switched_off_are_not_missed(
    tier_stack: TierStack, colds: Sequence[Reply]
) -> None:
    with Traffic(tier_stack, colds) as traffic:
        tier_stack.clear_ram()
        with tier_stack.switched_off("ssd"), tier_stack.switched_off("redis"):
            assert eventually(lambda: tier_stack.says("the tier ssd is switched off"), 60)
            assert eventually(lambda: tier_stack.says("the tier redis is switched off"), 60)
            assert traffic.goes_on(PROMPTS)
        assert traffic.goes_on(PROMPTS)

    assert_nobody_noticed(tier_stack, traffic)
