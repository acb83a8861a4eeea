"""Two real engines, each with a real tier server of its own, behind one gateway.

What one replica's tiers hold is loaded there alone, and the trouble of one tier server is its own
replica's: it dies and comes back while the other goes on.
"""

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.books import assert_served
from tests.e2e.replies import TIERS, new_prompt
from tests.e2e.tier_pair import BOTH, Pair, running_pair
from tests.e2e.tier_stack import CHUNK_TOKENS, eventually
from tests.engines import let_stores_end
from tests.gateways import add_collection

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

# Of the scaffold of every prompt, which the engines hold all the time.
_SCAFFOLD_TOKENS = 64


@pytest.fixture(scope="module")
def pair(
    engine_cache: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    homes = [tmp_path_factory.mktemp(name) for name in ("replica-0", "replica-1", "gateway")]
    with running_pair(homes, engine_cache, tiny_model) as running:
        yield running


@pytest.fixture(autouse=True)
def _healthy(pair: Pair) -> None:
    """Whatever the test before did, both replicas are used, and use their tiers."""
    pair.only(*BOTH)
    assert eventually(lambda: all(map(pair.uses_tiers, BOTH)), 60), pair.reasons(0) + pair.reasons(
        1
    )


@pytest.mark.parametrize("number", BOTH)
def test_a_replica_loads_from_its_own_servers_ram(pair: Pair, number: int) -> None:
    cold = pair.remembered(number)
    before = [pair.ram_loads(each) for each in BOTH]
    pair.flush(number)
    reply = pair.ask(cold.prompt)

    assert_served(reply, cold, "ram")
    assert reply.block["replica"] == f"engine-{number}"
    grown = [pair.ram_loads(each) - was for each, was in zip(BOTH, before, strict=True)]
    assert grown[number] >= reply.served["ram"] // CHUNK_TOKENS
    assert grown[1 - number] == 0


def test_what_one_replicas_tiers_hold_is_computed_by_the_other(pair: Pair) -> None:
    cold = pair.remembered(0)
    pair.only(1)
    reply = pair.ask(cold.prompt)

    assert sum(reply.served.values()) == reply.served["gpu"] <= _SCAFFOLD_TOKENS
    assert (reply.block["verdict"], reply.block["cause"]) == ("moved", "other_replica")
    assert reply.is_like(cold)


@pytest.mark.parametrize("number", BOTH)
def test_a_question_goes_where_the_tiers_have_its_prompt(pair: Pair, number: int) -> None:
    cold = pair.remembered(number)
    pair.flush(number)
    pair.only(*BOTH)

    assert_served(reply := pair.ask(cold.prompt), cold, "ram")
    assert reply.block["replica"] == f"engine-{number}"


def test_a_corpus_is_given_to_its_own_replicas_tiers_and_comes_back_from_there(pair: Pair) -> None:
    text = " ".join(new_prompt(100) for _ in range(6))
    name = add_collection(pair.url, f"island-{secrets.token_hex(4)}", text)
    pair.warm(name)
    assert eventually(lambda: pair.corpus(name).get("state") == "resident", 60), pair.corpus(name)
    for number in BOTH:
        let_stores_end(pair.stacks[number].tier_url)
    told = pair.corpus(name)
    assert told["tiered_tokens"] == told["tokens"] == told["resident_tokens"]

    before = [pair.ram_loads(each) for each in BOTH]
    for number in BOTH:
        pair.flush(number)
    assert eventually(lambda: pair.corpus(name)["warm_loaded_tokens"] > 0, 60), pair.corpus(name)
    grown = [pair.ram_loads(each) - was for each, was in zip(BOTH, before, strict=True)]
    assert min(grown) == 0
    assert max(grown) > 0


def test_deleted_kv_is_destroyed_on_both_servers(pair: Pair) -> None:
    colds = [pair.remembered(number) for number in BOTH]
    before = [pair.destroyed(number) for number in BOTH]
    assert eventually(lambda: pair.delete_kv() == 0, 60)

    assert all(pair.destroyed(number) > was for number, was in zip(BOTH, before, strict=True))
    for number, cold in zip(BOTH, colds, strict=True):
        pair.only(number)
        reply = pair.ask(cold.prompt)
        assert reply.served == dict.fromkeys(TIERS, 0)
        assert reply.is_like(cold)


def test_a_killed_tier_server_costs_its_own_replica_its_ram_and_nobody_else(pair: Pair) -> None:
    other, cold = pair.remembered(0), pair.remembered(1)
    pair.flush(1)
    killed = pair.stacks[1]
    restarts = killed.restarts("tier")
    killed_url = str(killed.tier_url)
    os.kill(killed.pids["tier"], signal.SIGKILL)

    without = pair.ask(cold.prompt)
    assert without.is_like(cold)
    assert sum(without.served.values()) <= _SCAFFOLD_TOKENS
    assert (without.block["verdict"], without.block["cause"]) == ("evicted", "tier_skipped")
    pair.only(0)
    assert not any(words in pair.reasons(0) for words in (killed_url, "KV tiers"))
    pair.flush(0)
    assert_served(pair.ask(other.prompt), other, "ram")

    assert eventually(lambda: killed.restarts("tier") > restarts, 60)
    assert eventually(lambda: pair.uses_tiers(1), 60), pair.reasons(1)
    pair.only(1)
    pair.flush(1)
    assert_served(pair.ask(cold.prompt), cold, "ssd")


def test_a_deletion_waits_for_a_server_that_is_away(pair: Pair) -> None:
    pair.remembered(0)
    pair.remembered(1)
    before = [pair.destroyed(number) for number in BOTH]
    away = pair.stacks[1]
    away.stop_service("tier")
    try:
        assert pair.delete_kv() > 0
        assert eventually(lambda: pair.destroyed(0) > before[0], 60)
        assert pair.destroyed(1) == before[1]
        assert eventually(lambda: str(away.tier_url) in pair.reasons(1), 60)
    finally:
        away.start_service("tier")
    assert eventually(lambda: pair.destroyed(1) == before[1] + pair.destroyed(0) - before[0], 60)
