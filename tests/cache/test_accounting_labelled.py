"""Labelled traffic: each cause is put in on purpose, and the accounting has to name it.

The engine is a small exact model (the simulator's radix tree and tier) behind real prompts of the
shipped templates. Every test says what must be lost to which cause, and that the sums are exact.
"""

import random
from collections.abc import Callable

import pytest

from cache.causes import Cause
from cache.naive_index import NaiveIndex
from cache.prefix_index import PrefixIndex
from cache.verdicts import Verdict
from prompts import PromptTokenizer, load_tokenizer
from tests.cache.accounting_mixtures import clean_traffic, mixtures
from tests.cache.accounting_scenarios import SINGLES, WITH_TIERS, WITHOUT_EVENTS, Case, Scenario
from tests.cache.accounting_world import Settled, World
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

_EACH = 5
_MIXED = 2
_SEED = 20261130
_CLEAN_REQUESTS = 60

WorldMaker = Callable[..., World]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    folder = tmp_path_factory.mktemp("model")
    return load_tokenizer(write_tokenizer(folder, chat_template=CHATML_TOOLS))


@pytest.fixture(params=[NaiveIndex, PrefixIndex])
def new_world(request: pytest.FixtureRequest, tokenizer: PromptTokenizer) -> WorldMaker:
    """Worlds over either index."""

    def make(seed: object, *, page: int = 16, chunk: int | None = None) -> World:
        return World(
            tokenizer=tokenizer,
            index=request.param(page_tokens=page),
            random=random.Random(repr(seed)),
            page=page,
            chunk=chunk,
        )

    return make


def adds_up(settled: Settled) -> bool:
    accounting, flight = settled.accounting, settled.flight
    if accounting.new_tokens is None:
        return not accounting.lost and accounting.verdict is Verdict.UNKNOWN
    lost = sum(accounting.lost.values())
    return (
        len(flight.ids) == flight.cached + lost + accounting.new_tokens
        and accounting.new_tokens >= 1
        and all(tokens > 0 for tokens in accounting.lost.values())
        and accounting.ideal_tokens == max(flight.left, flight.cached)
    )


def is_named(case: Case) -> bool:
    """Every cause, none that was not put in, and the exact tokens where they are known."""
    accounting = case.settled.accounting
    named = {Cause(cause) for cause in accounting.causes.values()}
    return (
        named == case.causes
        and (not accounting.lost or set(accounting.lost) == case.verdicts)
        and all(accounting.lost.get(reason, 0) == n for reason, n in case.tokens.items())
    )


def settings_of(name: str) -> dict[str, int]:
    """Tiers for what is about them, and large pages for what ends within one."""
    if name == "page":
        return {"page": 64}
    return {"chunk": 64} if "tier" in name or "chunk" in name else {}


@pytest.mark.parametrize(
    "scenario", [*SINGLES, *WITH_TIERS, *WITHOUT_EVENTS], ids=lambda scenario: scenario.__name__
)
def test_a_single_cause_is_always_named(scenario: Scenario, new_world: WorldMaker) -> None:
    for number in range(_EACH):
        world = new_world((_SEED, scenario.__name__, number), **settings_of(scenario.__name__))
        world.kv_events = scenario not in WITHOUT_EVENTS
        case = scenario(world)
        assert adds_up(case.settled)
        assert is_named(case), (number, case.causes, case.tokens, case.settled.accounting)


@pytest.mark.parametrize(("name", "scenario"), [pytest.param(n, s, id=n) for n, s in mixtures()])
def test_each_of_several_causes_is_named(
    name: str, scenario: Scenario, new_world: WorldMaker
) -> None:
    for number in range(_MIXED):
        case = scenario(new_world((_SEED, name, number), **settings_of(name)))
        assert adds_up(case.settled)
        assert is_named(case), (number, case.causes, case.tokens, case.settled.accounting)


@pytest.mark.parametrize("chunk", [None, 64])
def test_clean_traffic_is_only_hit_or_cold_and_predicted_exactly(
    chunk: int | None, new_world: WorldMaker
) -> None:
    world = new_world((_SEED, "clean", chunk), chunk=chunk)
    verdicts = set()
    for settled in clean_traffic(world, _CLEAN_REQUESTS):
        assert adds_up(settled)
        assert not settled.accounting.lost, settled.accounting
        assert settled.accounting.predicted_tokens in (None, settled.flight.cached)
        verdicts.add(settled.accounting.verdict)
    assert verdicts == {Verdict.HIT, Verdict.COLD}


def test_there_are_enough_labelled_causes() -> None:
    singles = len([*SINGLES, *WITH_TIERS, *WITHOUT_EVENTS]) * _EACH
    mixed = len(list(mixtures())) * _MIXED
    assert singles >= 100
    assert singles + mixed >= 200


def test_every_cause_is_put_in_somewhere() -> None:
    named = {scenario.__name__ for scenario in (*SINGLES, *WITH_TIERS, *WITHOUT_EVENTS)}
    # A prompt without token ids never comes to the accountant.
    assert {cause.value for cause in Cause} - {Cause.NO_TOKEN_IDS} <= named
