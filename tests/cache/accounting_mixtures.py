"""Several causes in one request, and traffic in which nothing is wrong."""

from collections.abc import Iterator
from itertools import product

from cache.causes import Cause
from cache.verdicts import Verdict
from prompts import Message, PromptDocument
from tests.cache.accounting_scenarios import (
    CHAT,
    DOCQA,
    SHORT,
    Case,
    Scenario,
    asked,
    case,
    documents,
)
from tests.cache.accounting_world import Flight, Settled, World, message

# What can happen to the part of a prompt that earlier requests had left in its place …
BEFORE = (
    Cause.CLEARED,
    Cause.POOL,
    Cause.TIER_SKIPPED,
    Cause.TIER_LOST,
    Cause.CHUNK,
    Cause.UNEXPLAINED,
    Cause.OTHER_REPLICA,
    Cause.EVENTS_LOST,
)
# … and to what follows it.
BEHIND = (
    Cause.DOCUMENTS_ORDER,
    Cause.DOCUMENTS_CHANGED,
    Cause.HISTORY_EDITED,
    Cause.SEGMENT_CHANGED,
    Cause.OTHER_SALT,
)


def mixtures() -> Iterator[tuple[str, Scenario]]:
    """Every pair of a loss before the divergence and one behind it, and some of three."""
    for before, behind in product(BEFORE, BEHIND):
        yield f"{before}+{behind}", _pair(before, behind)
    for before in (Cause.CLEARED, Cause.UNEXPLAINED, Cause.CHUNK):
        yield f"moved+{before}", _moved_behind(before)
        yield f"{before}+documents_order+other_salt", _with_other_salt(before)


def _pair(before: Cause, behind: Cause) -> Scenario:
    def scenario(world: World) -> Case:
        docs = documents(world, 5)
        first, second = _prompts(world, docs, behind)
        where = "r1" if before is Cause.OTHER_REPLICA else "r0"
        for values in first:
            world.ask(*values, replica=where)
        if behind is Cause.OTHER_SALT:
            world.ask(*second, salt="salt-b")
        return _finish(world, second, before, behind)

    return scenario


def _with_other_salt(before: Cause) -> Scenario:
    """Documents in another order, then text that only another tenant had sent."""

    def scenario(world: World) -> Case:
        docs = documents(world, 6)
        instructions = {"instructions": world.words(60)}
        shuffled = [docs[0], docs[1], *reversed(docs[2:])]
        last = asked(world, shuffled) | instructions
        world.ask(DOCQA, asked(world, docs))
        world.ask(DOCQA, last, salt="salt-b")
        return _finish(world, (DOCQA, last), before, Cause.DOCUMENTS_ORDER, Cause.OTHER_SALT)

    return scenario


def _moved_behind(before: Cause) -> Scenario:
    """Two documents were here once; another replica had all of them, and no tier got those."""

    def scenario(world: World) -> Case:
        docs = documents(world, 6)
        world.ask(DOCQA, asked(world, docs[:2]))
        world.tier_is_down = True
        world.ask(DOCQA, asked(world, docs), replica="r1")
        world.tier_is_down = False
        return _finish(world, (DOCQA, asked(world, docs)), before, Cause.OTHER_REPLICA)

    return scenario


def _prompts(
    world: World, docs: list[PromptDocument], behind: Cause
) -> tuple[list[tuple[object, dict[str, object]]], tuple[object, dict[str, object]]]:
    """What is asked first, and the prompt that differs from it by a cause."""
    match behind:
        case Cause.DOCUMENTS_ORDER:
            other = [docs[0], docs[1], docs[3], docs[2], docs[4]]
            return [(DOCQA, asked(world, docs))], (DOCQA, asked(world, other))
        case Cause.DOCUMENTS_CHANGED:
            other = [docs[0], docs[1], world.document(), docs[3], docs[4]]
            return [(DOCQA, asked(world, docs))], (DOCQA, asked(world, other))
        case Cause.SEGMENT_CHANGED:
            head, tail = world.words(60), world.words(50)
            one, two = (f"{head} It is {hour} now. {tail}" for hour in ("9:01", "10:47"))
            return (
                [(CHAT, {"instructions": one, "conversation": _talk(world, 1)})],
                (CHAT, {"instructions": two, "conversation": _talk(world, 1)}),
            )
        case Cause.HISTORY_EDITED:
            said = _talk(world, 7)
            turns = [(CHAT, {"conversation": said[:count]}) for count in (1, 3, 5, 7)]
            edited = [*said[:2], message("user", world.words(20)), *said[3:]]
            edited += [message("assistant", world.words(20)), message("user", world.words(9))]
            return list(turns), (CHAT, {"conversation": edited})
        case _:
            # The other tenant asked about the same documents and some more.
            last = asked(world, [*docs, world.document(), world.document()])
            return [(DOCQA, asked(world, docs))], (DOCQA, last)


def _finish(world: World, values: tuple[object, dict[str, object]], *causes: Cause) -> Case:
    """Let the first cause happen, and send the last prompt."""
    before = causes[0]
    at_most = None
    match before:
        case Cause.CLEARED:
            world.flush()
        case Cause.POOL | Cause.CHUNK:
            world.evict()
        case Cause.TIER_SKIPPED:
            world.evict()
            world.tier_is_down = True
        case Cause.TIER_LOST:
            assert world.tier is not None
            world.evict()
            world.tier.clear()
        case Cause.UNEXPLAINED:
            at_most = world.page
        case Cause.EVENTS_LOST:
            world.evict(events=False)
            world.lose_events()
    flight = world.send(*values)  # type: ignore[arg-type]
    settled = world.end(world.begin(world.schedule(flight, at_most=at_most)))
    world.tier_is_down = False
    return Case(
        settled=settled,
        causes=_really(flight, causes),
        tokens={} if Cause.OTHER_REPLICA in causes[1:] else _shortfall(flight, before),
    )


def _really(flight: Flight, causes: tuple[Cause, ...]) -> frozenset[Cause]:
    """Where tiers serve all that was left, in whole chunks by chance, nothing was lost before."""
    left = flight.left_here if Cause.OTHER_REPLICA in causes[1:] else flight.left
    return frozenset(causes if left > flight.cached else causes[1:])


def _shortfall(flight: Flight, before: Cause) -> dict[Verdict, int]:
    short = max(0, flight.left - flight.cached)
    match before:
        case Cause.CHUNK if short:
            return {Verdict.ROUNDING: short}
        case Cause.EVENTS_LOST:
            return {Verdict.UNKNOWN: short}
        case Cause.UNEXPLAINED:
            return {Verdict.ENGINE: short}
        case _:
            return {}


def _talk(world: World, count: int) -> list[Message]:
    roles = ("user", "assistant")
    return [message(roles[n % 2], world.words(world.random.randint(12, 30))) for n in range(count)]


# Nothing is wrong.


def clean_traffic(world: World, requests: int) -> Iterator[Settled]:
    """What a healthy deployment sees: several kinds of callers by turns, nothing lost."""
    collections = {name: documents(world) for name in ("one", "two")}
    applications = [world.words(50), world.words(40)]
    talks: list[tuple[str, list[Message]]] = []
    repeated: list[dict[str, object]] = []
    for _ in range(requests):
        match world.random.randrange(6):
            case 0:
                name = world.random.choice(sorted(collections))
                values = asked(world, collections[name])
                repeated.append({"collection": name, **values})
                yield world.ask(DOCQA, values, collection=name)
            case 1:
                name = world.random.choice(sorted(collections))
                collections[name] = [*collections[name], world.document()]
                yield world.ask(DOCQA, asked(world, collections[name]), collection=name)
            case 2:
                talk = [message("user", _short(world))]
                talks.append((world.random.choice(applications), talk))
                yield _say(world, *talks[-1])
            case 3 if talks:
                instructions, talk = world.random.choice(talks)
                talk += [message("assistant", _short(world)), message("user", _short(world))]
                yield _say(world, instructions, talk)
            case 4 if repeated:
                values = dict(world.random.choice(repeated))
                yield world.ask(DOCQA, values, collection=values.pop("collection"))
            case _:
                yield world.ask(SHORT, {"question": world.words(20)})


def _say(world: World, instructions: str, talk: list[Message]) -> Settled:
    return world.ask(CHAT, {"instructions": instructions, "conversation": list(talk)})


def _short(world: World) -> str:
    """The same few words in many conversations, or something of its own."""
    if world.random.random() < 0.6:
        return world.random.choice(
            ["Yes.", "Go on.", "Thanks!", "Why?", "You are welcome. What else?"]
        )
    return world.words(world.random.randint(5, 25))


__all__ = ["case", "clean_traffic", "mixtures"]
