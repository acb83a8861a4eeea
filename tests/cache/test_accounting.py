"""Edges of the accounting, one by one, and its sums under any traffic whatever."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.accounting import for_client
from cache.causes import ADVICE, VERDICT_OF, Cause
from cache.naive_index import NaiveIndex
from cache.prefix_index import PrefixIndex
from cache.verdicts import Accounting, Verdict
from prompts import PromptDocument, PromptTokenizer, load_tokenizer
from tests.cache.accounting_scenarios import (
    CHAT,
    DOCQA,
    SHORT,
    asked,
    documents,
    shared_pages,
)
from tests.cache.accounting_world import Flight, Settled, World, message
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

WorldMaker = Callable[..., World]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    folder: Path = tmp_path_factory.mktemp("model")
    return load_tokenizer(write_tokenizer(folder, chat_template=CHATML_TOOLS))


@pytest.fixture(params=[NaiveIndex, PrefixIndex])
def new_world(request: pytest.FixtureRequest, tokenizer: PromptTokenizer) -> WorldMaker:
    def make(seed: int = 1, *, page: int = 16, chunk: int | None = None) -> World:
        return World(
            tokenizer=tokenizer,
            index=request.param(page_tokens=page),
            random=random.Random(seed),
            page=page,
            chunk=chunk,
        )

    return make


def plain(settled: Settled) -> tuple[Verdict, int | None, dict[Verdict, int]]:
    accounting = settled.accounting
    return accounting.verdict, accounting.ideal_tokens, dict(accounting.lost)


def test_the_first_request_is_cold(new_world: WorldMaker) -> None:
    world = new_world()
    assert plain(world.ask(DOCQA, asked(world, documents(world)))) == (Verdict.COLD, 0, {})


def test_a_gateway_that_starts_after_the_engine_learns_what_it_holds(
    new_world: WorldMaker,
) -> None:
    world = new_world()
    docs = documents(world)
    before = world.ask(DOCQA, asked(world, docs))
    later = new_world(seed=2)
    later.trees, later.left = world.trees, {}
    settled = later.ask(DOCQA, asked(later, docs))
    cached = settled.flight.cached
    assert cached > len(before.flight.ids) // 2
    assert plain(settled) == (Verdict.HIT, cached, {})


def test_a_repeated_prompt_computes_its_last_page_again(new_world: WorldMaker) -> None:
    world = new_world()
    values = {"question": world.words(30)}
    world.ask(SHORT, values)
    settled = world.ask(SHORT, values)
    tokens = len(settled.flight.ids)
    limit = (tokens - 1) // 16 * 16
    assert plain(settled) == (Verdict.HIT, limit, {})
    assert settled.accounting.new_tokens == tokens - limit


@pytest.mark.parametrize("longer", [-1, 0, 1])
def test_page_boundaries_count_as_the_engine_counts(longer: int, new_world: WorldMaker) -> None:
    world = new_world()
    ids = world.tokenizer.tokenize  # prompts are grown until their length is what is wanted
    text = "a"
    while True:
        flight = world.send(SHORT, {"question": text})
        world.end(world.begin(world.schedule(flight)))
        if len(flight.ids) % 16 == longer % 16:
            break
        text += " a"
    assert callable(ids)
    settled = world.ask(SHORT, {"question": text})
    assert settled.flight.cached == (len(settled.flight.ids) - 1) // 16 * 16
    assert not settled.accounting.lost


def test_an_opening_shorter_than_a_page_is_rounding_only_where_a_piece_is_shared(
    new_world: WorldMaker,
) -> None:
    world = new_world(page=128)
    world.ask(SHORT, {"question": "Why?"})
    settled = world.ask(SHORT, {"question": "Who is there?"})
    shared = settled.accounting.lost[Verdict.ROUNDING]
    assert settled.accounting.verdict is Verdict.ROUNDING
    assert 0 < shared < len(settled.flight.ids)
    other = world.ask(CHAT, {"conversation": [message("user", "Why?")]})
    assert plain(other) == (Verdict.COLD, 0, {})


def test_a_request_that_failed_has_left_nothing(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world)
    flight = world.send(DOCQA, asked(world, docs))
    world.end(flight, reported=False, completed=False, failed=True)
    assert plain(world.ask(DOCQA, asked(world, docs))) == (Verdict.COLD, 0, {})


def test_a_stream_that_was_given_up_has_left_its_prompt(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world)
    flight = world.begin(world.schedule(world.send(DOCQA, asked(world, docs))))
    world.end(flight, completed=False)
    settled = world.ask(DOCQA, asked(world, docs))
    assert settled.accounting.verdict is Verdict.HIT
    assert settled.accounting.ideal_tokens == settled.flight.cached > 0


def test_requests_that_share_nothing_at_the_same_time_lose_nothing(new_world: WorldMaker) -> None:
    world = new_world()
    one = world.send(DOCQA, asked(world, documents(world)), collection="a")
    two = world.send(CHAT, {"conversation": [message("user", world.words(30))]})
    for flight in (one, two):
        world.schedule(flight)
    for flight in (one, two):
        world.begin(flight)
    assert all(not world.end(flight).accounting.lost for flight in (one, two))


def test_of_two_at_once_the_one_that_begins_last_did_it_again(new_world: WorldMaker) -> None:
    """Be it the one that was sent first: answers overtake each other."""
    world = new_world()
    docs = documents(world)
    one = world.schedule(world.send(DOCQA, asked(world, docs)))
    two = world.schedule(world.send(DOCQA, asked(world, docs)))
    world.begin(two)
    assert world.end(two).accounting.verdict is Verdict.COLD
    world.begin(one)
    again = world.end(one)
    assert again.accounting.causes == {Verdict.ENGINE: Cause.CONCURRENT}
    assert again.accounting.lost == {Verdict.ENGINE: shared_pages(world, two, one)}


def test_what_a_later_request_computes_on_another_replica_is_no_loss(
    new_world: WorldMaker,
) -> None:
    world = new_world()
    docs = documents(world)
    one = world.schedule(world.send(DOCQA, asked(world, docs)))
    two = world.schedule(world.send(DOCQA, asked(world, docs), replica="r1"))
    world.begin(two)
    world.end(two)
    world.begin(one)
    assert world.end(one).accounting.verdict is Verdict.COLD


def test_lost_events_alone_are_no_loss(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.lose_events()
    settled = world.ask(DOCQA, asked(world, docs))
    assert settled.accounting.verdict is Verdict.HIT
    assert not settled.accounting.lost


def test_before_any_event_has_come_nobody_knows_what_became_of_it(new_world: WorldMaker) -> None:
    """Whether the engine still had it is told by its events, which may be late or lost."""
    for heard, verdict in ((True, Verdict.ENGINE), (False, Verdict.UNKNOWN)):
        world = new_world()
        docs = documents(world)
        world.ask(DOCQA, asked(world, docs))
        flight = world.send(DOCQA, asked(world, docs))
        world.begin(world.schedule(flight, at_most=world.page))
        assert world.accountant.awaits_events(flight.expectation, flight.cached)
        settled = world.end(flight, heard=heard)
        assert settled.accounting.verdict is verdict


def test_only_what_may_still_come_is_waited_for(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    flight = world.send(DOCQA, asked(world, docs))
    assert not world.accountant.awaits_events(flight.expectation, flight.expectation.ideal_tokens)
    assert world.accountant.awaits_events(flight.expectation, 0)
    world.evict()
    assert not world.accountant.awaits_events(flight.expectation, 0)
    known = world.send(DOCQA, asked(world, docs))
    assert not world.accountant.awaits_events(known.expectation, 0)


def test_after_lost_events_what_is_stored_anew_is_known_again(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.evict(events=False)
    world.lose_events()
    world.ask(DOCQA, asked(world, docs))
    world.evict()
    settled = world.ask(DOCQA, asked(world, docs))
    assert settled.accounting.causes == {Verdict.EVICTED: Cause.POOL}


def test_nothing_is_predicted_once_the_tiers_have_dropped_something(new_world: WorldMaker) -> None:
    world = new_world(chunk=64)
    docs = documents(world, 5)
    world.ask(DOCQA, asked(world, docs))
    world.evict()
    flight = world.send(DOCQA, asked(world, docs))
    rules = world.rules
    uncertain = type(rules)(page_tokens=16, chunk_tokens=64, tiers_certain=False)
    sure = world.accountant.expect(flight.expectation.prompt, rules).predicted_tokens
    assert sure == flight.left // 64 * 64
    assert world.accountant.expect(flight.expectation.prompt, uncertain).predicted_tokens is None


def test_an_earlier_document_is_named_as_the_last_that_matched(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world, 5)
    first = world.ask(DOCQA, asked(world, docs))
    other = [*docs[:3], world.document(), docs[4]]
    settled = world.ask(DOCQA, asked(world, other))
    divergence = settled.accounting.divergence
    assert divergence is not None
    assert divergence.earlier_request == first.flight.expectation.prompt.request_id
    assert (divergence.segment, divergence.document) == ("documents", other[3].name)
    assert (divergence.matched_through, divergence.matched_parts) == (docs[2].name, 3)
    assert divergence.of == len(settled.flight.ids)
    ids = first.flight.ids
    assert ids[: divergence.token] == settled.flight.ids[: divergence.token]
    assert ids[divergence.token] != settled.flight.ids[divergence.token]


def test_a_conversation_that_only_grows_parts_nowhere(new_world: WorldMaker) -> None:
    world = new_world()
    said = [message("user", world.words(20))]
    world.ask(CHAT, {"conversation": list(said)})
    said += [message("assistant", world.words(20)), message("user", world.words(9))]
    settled = world.ask(CHAT, {"conversation": said})
    assert settled.accounting.divergence is None
    assert settled.accounting.verdict is Verdict.HIT


def test_a_conversation_parts_at_the_message_that_was_edited(new_world: WorldMaker) -> None:
    world = new_world()
    said = [message(("user", "assistant")[n % 2], world.words(25)) for n in range(5)]
    world.ask(CHAT, {"conversation": said})
    edited = [*said[:2], message("user", world.words(25)), *said[3:]]
    divergence = world.ask(CHAT, {"conversation": edited}).accounting.divergence
    assert divergence is not None
    assert divergence.document == "message 3 (user)"
    assert divergence.matched_through == "message 2 (assistant)"


def test_an_answer_that_comes_back_shows_whose_conversation_it_is(new_world: WorldMaker) -> None:
    world = new_world()
    first = message("user", "At 9:01. " + world.words(30))
    answer = world.words(25)
    flight = world.send(CHAT, {"conversation": [first]})
    output = world.tokenizer.encoder.encode(answer, add_special_tokens=False).ids
    world.end(world.begin(world.schedule(flight)), output=[*output, 2])
    world.ask(CHAT, {"conversation": [message("user", world.words(12))]})
    edited = message("user", "At 9:02. " + first.content.removeprefix("At 9:01. "))
    talk = [edited, message("assistant", answer), message("user", "And then?")]
    settled = world.ask(CHAT, {"conversation": talk})
    assert settled.accounting.causes == {Verdict.CHANGED: Cause.HISTORY_EDITED}
    assert settled.accounting.lost[Verdict.CHANGED] >= len(output)


def test_a_client_sees_of_other_salts_no_more_than_the_scaffold(new_world: WorldMaker) -> None:
    world = new_world()
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs), salt="salt-b")
    settled = world.ask(DOCQA, asked(world, docs))
    full = settled.accounting
    assert full.verdict is Verdict.ISOLATED
    scaffold = settled.flight.expectation.prompt.scaffold_tokens
    shown = for_client(full, scaffold)
    assert 0 < shown.lost[Verdict.ISOLATED] <= scaffold < full.lost[Verdict.ISOLATED]
    assert totals(shown) == totals(full)
    hidden = for_client(full, 0)
    assert (hidden.verdict, hidden.cause, dict(hidden.lost)) == (Verdict.COLD, None, {})
    assert totals(hidden) == totals(full)


def totals(accounting: Accounting) -> int:
    assert accounting.new_tokens is not None
    return sum(accounting.lost.values()) + accounting.new_tokens


def test_the_verdict_for_a_client_is_made_anew() -> None:
    both = Accounting(
        ideal_tokens=0,
        predicted_tokens=0,
        verdict=Verdict.ISOLATED,
        cause=Cause.OTHER_SALT,
        lost={Verdict.CHANGED: 100, Verdict.ISOLATED: 300},
        new_tokens=50,
        divergence=None,
        causes={Verdict.CHANGED: Cause.VERSION, Verdict.ISOLATED: Cause.OTHER_SALT},
    )
    shown = for_client(both, 0)
    assert (shown.verdict, shown.cause) == (Verdict.CHANGED, Cause.VERSION)
    assert dict(shown.causes) == {Verdict.CHANGED: Cause.VERSION}


def test_every_cause_has_a_verdict_and_an_advice() -> None:
    assert set(VERDICT_OF) == set(ADVICE) == set(Cause)
    assert {*VERDICT_OF.values()} == set(Verdict) - {Verdict.HIT, Verdict.COLD}


def test_the_lineages_of_a_salt_are_forgotten_with_it(new_world: WorldMaker) -> None:
    world = new_world()
    world.ask(DOCQA, asked(world, documents(world)))
    world.ask(DOCQA, asked(world, documents(world)), salt="salt-b")
    world.accountant.forget_salt("salt-b")
    assert len(world.accountant.lineages) == 1


@given(seed=st.integers(0, 2**32), chunk=st.sampled_from([None, 64]), steps=st.integers(5, 25))
@settings(max_examples=25)
@pytest.mark.parametrize("kind", [NaiveIndex, PrefixIndex])
def test_tokens_always_add_up(
    kind: type[NaiveIndex] | type[PrefixIndex],
    seed: int,
    chunk: int | None,
    steps: int,
    tokenizer: PromptTokenizer,
) -> None:
    world = World(
        tokenizer=tokenizer,
        index=kind(page_tokens=16),
        random=random.Random(seed),
        chunk=chunk,
    )
    for settled in anything(world, steps):
        flight, accounting = settled.flight, settled.accounting
        if accounting.new_tokens is None:
            assert accounting.verdict is Verdict.UNKNOWN
            continue
        assert len(flight.ids) == flight.cached + totals(accounting)
        assert accounting.new_tokens >= 1
        assert all(tokens > 0 for tokens in accounting.lost.values())
        assert set(accounting.causes) == set(accounting.lost)
        assert accounting.ideal_tokens >= max(flight.left, flight.cached)  # type: ignore[operator]
        none = Verdict.HIT if accounting.ideal_tokens else Verdict.COLD
        assert (accounting.verdict is none) == (not accounting.lost)
        shown = for_client(accounting, flight.expectation.prompt.scaffold_tokens)
        assert totals(shown) == totals(accounting)


def anything(world: World, steps: int) -> list[Settled]:
    """Requests that overlap, fail and are given up, while the engine and its events misbehave."""
    dice, settled = world.random, []
    flying: list[Flight] = []
    docs = [world.document(dice.randint(3, 30)) for _ in range(5)]
    for _ in range(steps):
        match dice.randrange(9):
            case 0 | 1 | 2 | 3:
                flying.append(send_anything(world, docs))
            case 4 | 5 if flying:
                flight = flying[dice.randrange(len(flying))]
                if flight.began_at is None:
                    limit = dice.choice([None, None, 16, 48])
                    world.begin(world.schedule(flight, at_most=limit), events=dice.random() < 0.8)
            case 6 if flying:
                settled.append(end_anyhow(world, flying.pop(dice.randrange(len(flying)))))
            case 7:
                world.evict(dice.choice(["r0", "r1"]), keep=dice.choice([0, 200]))
                world.tier_is_down = dice.random() < 0.3
            case _:
                replica = dice.choice(["r0", "r1"])
                if dice.random() < 0.5:
                    world.flush(replica)
                else:
                    world.lose_events(replica)
    return settled + [end_anyhow(world, flight) for flight in flying]


def send_anything(world: World, docs: list[PromptDocument]) -> Flight:
    dice = world.random
    where = {
        "salt": dice.choice(["salt-a", "salt-a", "salt-b"]),
        "replica": dice.choice(["r0", "r0", "r1"]),
    }
    if dice.random() < 0.3:
        roles = ("user", "assistant")
        said = [
            message(roles[n % 2], dice.choice(docs).text) for n in range(dice.choice([1, 3, 5]))
        ]
        return world.send(CHAT, {"conversation": said}, **where)
    chosen = dice.sample(docs, dice.randint(1, len(docs)))
    return world.send(DOCQA, asked(world, chosen), **where)


def end_anyhow(world: World, flight: Flight) -> Settled:
    dice = world.random
    if flight.began_at is None:
        return world.end(flight, reported=dice.random() < 0.5, completed=False)
    return world.end(flight, reported=dice.random() < 0.9, completed=dice.random() < 0.8)


def test_chunks_count_as_given_to_the_tiers_only_while_the_guards_word_is_fresh(
    new_world: WorldMaker,
) -> None:
    for silent in (False, True):
        world = new_world(chunk=64)
        world.guard_is_silent = silent
        flight = world.ask(DOCQA, asked(world, documents(world))).flight
        match = world.index.match(world.index.keys(flight.ids), salt=flight.salt, sent_at=1e9)
        assert (match.tiered == 0) is silent
