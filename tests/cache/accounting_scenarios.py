"""Causes put into traffic on purpose, each with the label that the accounting should find."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cache.causes import VERDICT_OF, Cause
from cache.verdicts import Verdict
from prompts import (
    Message,
    PromptDocument,
    canonical_tools,
    load_templates,
    parse_template,
    shipped_templates,
)
from tests.cache.accounting_world import Flight, Settled, World, message

DOCQA = load_templates(shipped_templates()).find("docqa")
CHAT = load_templates(shipped_templates()).find("chat")
DOCQA_NEXT = parse_template(
    Path("docqa.yaml"),
    (shipped_templates() / "docqa.yaml")
    .read_bytes()
    .replace(b"version: 2", b"version: 3")
    .replace(b"You answer questions from", b"Please answer any question out of"),
)
SHORT = parse_template(
    Path("short.yaml"),
    b"""name: short
version: 1
variables:
  question: {type: text, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Be short."}
  - {id: question, role: user, volatility: turn, text: "{{ question }}"}
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The last request of a scenario, and every cause that was put into it.

    `tokens` are those that a reason must have lost exactly, where the scenario knows.
    """

    settled: Settled
    causes: frozenset[Cause]
    tokens: dict[Verdict, int]

    @property
    def verdicts(self) -> frozenset[Verdict]:
        return frozenset(VERDICT_OF[cause] for cause in self.causes)


Scenario = Callable[[World], Case]


def documents(world: World, count: int | None = None) -> list[PromptDocument]:
    return [world.document() for _ in range(count or world.random.randint(3, 6))]


def asked(world: World, docs: list[PromptDocument]) -> dict[str, object]:
    return {"documents": docs, "question": world.words(world.random.randint(4, 12))}


def case(settled: Settled, *causes: Cause, **tokens: int) -> Case:
    return Case(
        settled=settled,
        causes=frozenset(causes),
        tokens={Verdict(name): count for name, count in tokens.items()},
    )


def _again(world: World, docs: list[PromptDocument]) -> tuple[Settled, int]:
    """Another question about the same documents, and what it could have re-used."""
    settled = world.ask(DOCQA, asked(world, docs))
    return settled, settled.flight.left - settled.flight.cached


# One cause each.


def cleared(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.flush()
    settled, short = _again(world, docs)
    return case(settled, Cause.CLEARED, evicted=short)


def pool(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.ask(DOCQA, asked(world, docs))
    world.evict(keep=world.random.choice([0, 64, 200]))
    settled, short = _again(world, docs)
    return case(settled, Cause.POOL, evicted=short)


def pool_after_a_clear(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.flush()
    world.ask(DOCQA, asked(world, docs))
    world.evict()
    settled, short = _again(world, docs)
    return case(settled, Cause.POOL, evicted=short)


def pool_while_waiting(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    flight = world.send(DOCQA, asked(world, docs))
    world.tick()
    world.evict(events=False)
    settled = world.end(world.begin(world.schedule(flight)))
    return case(settled, Cause.POOL, evicted=flight.left - flight.cached)


def cleared_while_waiting(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    flight = world.send(DOCQA, asked(world, docs))
    world.flush(events=False)
    settled = world.end(world.begin(world.schedule(flight)))
    return case(settled, Cause.CLEARED, evicted=flight.left - flight.cached)


def tier_skipped(world: World) -> Case:
    docs = documents(world, 5)
    world.ask(DOCQA, asked(world, docs))
    world.evict()
    world.tier_is_down = True
    settled, short = _again(world, docs)
    world.tier_is_down = False
    return case(settled, Cause.TIER_SKIPPED, evicted=short)


def tier_lost(world: World) -> Case:
    assert world.tier is not None
    docs = documents(world, 5)
    world.ask(DOCQA, asked(world, docs))
    world.evict()
    world.tier.clear()
    settled, short = _again(world, docs)
    return case(settled, Cause.TIER_LOST, evicted=short)


def chunk(world: World) -> Case:
    """Served from the tier, with or without a part that the GPU still has."""
    docs = documents(world, 5)
    first = docs[: world.random.randint(1, 2)]
    world.ask(DOCQA, asked(world, first))
    while True:
        world.ask(DOCQA, asked(world, docs))
        world.evict(keep=world.random.choice([0, 0, 300]))
        settled, short = _again(world, docs)
        if settled.flight.loaded and short:
            return case(settled, Cause.CHUNK, rounding=short)
        docs = [*docs, world.document()]


def page(world: World) -> Case:
    values = {"question": "Why?"}
    world.ask(SHORT, values)
    settled = world.ask(SHORT, values)
    assert settled.flight.left == 0
    return case(settled, Cause.PAGE, rounding=len(settled.flight.ids) - 1)


def concurrent(world: World) -> Case:
    docs = documents(world)
    one = world.send(DOCQA, asked(world, docs))
    two = world.send(DOCQA, asked(world, docs))
    world.schedule(one)
    world.schedule(two)
    world.begin(one)
    world.begin(two)
    racing = shared_pages(world, one, two)
    world.end(one)
    settled = world.end(two)
    return case(settled, Cause.CONCURRENT, engine=racing)


def unexplained(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    flight = world.schedule(world.send(DOCQA, asked(world, docs)), at_most=world.page)
    settled = world.end(world.begin(flight))
    return case(settled, Cause.UNEXPLAINED, engine=flight.left - flight.cached)


def other_replica(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs), replica="r1")
    settled = world.ask(DOCQA, asked(world, docs))
    return case(settled, Cause.OTHER_REPLICA, moved=settled.flight.left)


def other_salt(world: World) -> Case:
    docs = documents(world)
    values = asked(world, docs)
    other = world.ask(DOCQA, values, salt="salt-b")
    settled = world.ask(DOCQA, asked(world, docs))
    return case(
        settled, Cause.OTHER_SALT, isolated=shared_pages(world, other.flight, settled.flight)
    )


def version(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    return case(world.ask(DOCQA_NEXT, asked(world, docs)), Cause.VERSION)


def tools_changed(world: World) -> Case:
    one, other = (_tools(world, count) for count in (3, 4))
    conversation = [message("user", world.words(30))]
    world.ask(CHAT, _talk(world, conversation), tools=one)
    instructions = {"instructions": world.words(40)}
    world.ask(CHAT, instructions | _talk(world, conversation), tools=one)
    settled = world.ask(
        CHAT,
        instructions | _talk(world, [message("user", world.words(30))]),
        tools=other,
    )
    return case(settled, Cause.TOOLS_CHANGED)


def segment_changed(world: World) -> Case:
    """The time at the head of a client's instructions."""
    rest = world.words(world.random.randint(30, 80))
    for minute in range(2):
        talk = _talk(world, [message("user", world.words(10))])
        head = f"It is {9 + minute}:{world.random.randint(10, 59)} now. "
        settled = world.ask(CHAT, {"instructions": head + rest} | talk)
    return case(settled, Cause.SEGMENT_CHANGED)


def documents_order(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    shuffled = list(docs)
    while shuffled == docs:
        world.random.shuffle(shuffled)
    return case(world.ask(DOCQA, asked(world, shuffled)), Cause.DOCUMENTS_ORDER)


def documents_changed(world: World) -> Case:
    docs = documents(world, 5)
    world.ask(DOCQA, asked(world, docs))
    place = world.random.randrange(len(docs) - 1)
    changed = list(docs)
    match world.random.choice(["insert", "remove", "replace", "edit"]):
        case "insert":
            changed.insert(place, world.document())
        case "remove":
            del changed[place]
        case "replace":
            changed[place] = world.document()
        case "edit":
            text = f"{world.words(3)} {docs[place].text}"
            changed[place] = PromptDocument(name=docs[place].name, text=text)
    return case(world.ask(DOCQA, asked(world, changed)), Cause.DOCUMENTS_CHANGED)


def history_edited(world: World) -> Case:
    said = _conversation(world, turns=world.random.randint(4, 6))
    edited = _edited(world, said)
    settled = world.ask(CHAT, {"conversation": [*edited, message("user", world.words(8))]})
    return case(settled, Cause.HISTORY_EDITED)


def first_message_edited(world: World) -> Case:
    """The second turn already sends the first message otherwise."""
    first = world.words(40)
    world.ask(CHAT, {"conversation": [message("user", first)]})
    answer = world.words(20)
    world.ask(CHAT, {"conversation": [message("user", world.words(12))]})
    talk = [message("user", first), message("assistant", answer), message("user", world.words(9))]
    world.ask(CHAT, {"conversation": talk})
    edited = [message("user", f"At {world.random.randint(10, 99)}: {first}"), *talk[1:]]
    more = [message("assistant", world.words(20)), message("user", world.words(9))]
    return case(world.ask(CHAT, {"conversation": [*edited, *more]}), Cause.HISTORY_EDITED)


def no_cache_report(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.cache_report = False
    flight = world.begin(world.schedule(world.send(DOCQA, asked(world, docs))))
    world.cache_report = True
    return case(world.end(flight, reported=False), Cause.NO_CACHE_REPORT)


def not_reported(world: World) -> Case:
    docs = documents(world)
    flight = world.begin(world.schedule(world.send(DOCQA, asked(world, docs))))
    return case(world.end(flight, reported=False), Cause.NOT_REPORTED)


def aborted(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    flight = world.send(DOCQA, asked(world, docs))
    if world.random.random() < 0.5:
        world.begin(world.schedule(flight))
    return case(world.end(flight, reported=False, completed=False), Cause.ABORTED)


def failed(world: World) -> Case:
    flight = world.send(DOCQA, asked(world, documents(world)))
    settled = world.end(flight, reported=False, completed=False, failed=True)
    return case(settled, Cause.FAILED)


def events_lost(world: World) -> Case:
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.evict(events=False)
    world.lose_events()
    settled, short = _again(world, docs)
    return case(settled, Cause.EVENTS_LOST, unknown=short)


def events_off(world: World) -> Case:
    world.kv_events = False
    docs = documents(world)
    world.ask(DOCQA, asked(world, docs))
    world.evict()
    settled, short = _again(world, docs)
    world.kv_events = True
    return case(settled, Cause.EVENTS_OFF, unknown=short)


SINGLES: tuple[Scenario, ...] = (
    cleared,
    pool,
    pool_after_a_clear,
    pool_while_waiting,
    cleared_while_waiting,
    page,
    concurrent,
    unexplained,
    other_replica,
    other_salt,
    version,
    tools_changed,
    segment_changed,
    documents_order,
    documents_changed,
    history_edited,
    first_message_edited,
    no_cache_report,
    not_reported,
    aborted,
    failed,
    events_lost,
)
WITH_TIERS: tuple[Scenario, ...] = (tier_skipped, tier_lost, chunk)
WITHOUT_EVENTS: tuple[Scenario, ...] = (events_off,)


def _talk(world: World, conversation: list[Message]) -> dict[str, object]:
    return {"conversation": conversation}


def _tools(world: World, count: int) -> tuple[object, ...]:  # type: ignore[type-arg]
    return canonical_tools(
        [
            {
                "type": "function",
                "function": {
                    "name": f"find_{number}",
                    "description": world.words(20),
                    "parameters": {"type": "object", "properties": {}},
                },
            }
            for number in range(count)
        ]
    )


def _conversation(world: World, *, turns: int) -> list[Message]:
    """A conversation that really took place: each turn was asked."""
    said: list[Message] = []
    for _ in range(turns):
        said.append(message("user", world.words(world.random.randint(10, 30))))
        world.ask(CHAT, {"conversation": list(said)})
        said.append(message("assistant", world.words(world.random.randint(10, 30))))
    return said


def _edited(world: World, said: list[Message]) -> list[Message]:
    place = world.random.randrange(len(said) - 4)
    match world.random.choice(["edit", "replace", "front", "summary"]):
        case "edit":
            text = f"{said[place].content} {world.words(3)}"
            return [*said[:place], message(said[place].role, text), *said[place + 1 :]]
        case "replace":
            other = message(said[place].role, world.words(15))
            return [*said[:place], other, *said[place + 1 :]]
        case "front":
            return said[2:]
        case _:
            return [message("user", world.words(20)), message("assistant", "Ok."), *said[4:]]


def shared_pages(world: World, one: Flight, two: Flight) -> int:
    length = 0
    for ours, theirs in zip(one.ids, two.ids, strict=False):
        if ours != theirs:
            break
        length += 1
    return min(length, len(two.ids) - 1) // world.page * world.page
