"""Which request continues which: found from the messages alone, also where history was rewritten.

A request continues an earlier one when it holds that one's messages, or most of them, before its
own newest. Messages are compared loosely (whitespace, reasoning, JSON spelling and Unicode form do
not count), so that a rewritten history still finds its conversation.
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

from cache.request_log.loose import LooseTexts
from cache.request_log.table import RequestTable

_CANDIDATES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """`earlier` is the request that is continued.

    `exact`: its messages are, byte for byte, the first of this one (the head aside).
    """

    earlier: int
    exact: bool


class _Agreement(NamedTuple):
    """How well a request fits as the one that is continued; `alike` of its messages are there.

    The `score` counts those twice that are there as they were.
    """

    answered: bool
    score: int
    alike: int


_NO_AGREEMENT = _Agreement(answered=False, score=0, alike=0)


def turns(table: RequestTable, request: int) -> tuple[int, ...]:
    """A request's messages without its leading system messages."""
    messages = table.prompt(request).messages
    start = 0
    while start < len(messages) and table.store.is_head(messages[start]):
        start += 1
    return messages[start:]


def head_messages(table: RequestTable, request: int) -> tuple[int, ...]:
    """A request's leading system messages."""
    messages = table.prompt(request).messages
    return messages[: len(messages) - len(turns(table, request))]


def find_links(table: RequestTable, loose: LooseTexts) -> list[Link | None]:
    """For each request the one it continues, None for the first of a conversation."""
    links: list[Link | None] = []
    by_turns: dict[tuple[int, ...], int] = {}
    unlinked: set[int] = set()
    for request in table:
        messages = turns(table, request)
        answered = _last_answer(table, messages)
        earlier = None if answered is None else by_turns.get(messages[:answered])
        links.append(None if earlier is None else Link(earlier=earlier, exact=True))
        if answered is not None and earlier is None:
            unlinked.add(request)
        by_turns[messages] = request
    if unlinked:
        _link_loosely(table, loose, links, unlinked)
    return links


def _link_loosely(
    table: RequestTable, loose: LooseTexts, links: list[Link | None], unlinked: set[int]
) -> None:
    """Find what the unlinked requests continue, by any part of the last message before."""
    recent: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=_CANDIDATES))
    for request in table:
        messages = turns(table, request)
        if request in unlinked:
            candidates = {
                earlier
                for message in messages[:-1]
                for key in loose.search_keys(message)
                for earlier in recent.get(key, ())
            }
            links[request] = _best(table, loose, candidates, messages)
        for message in _asked(table, messages):
            for key in loose.search_keys(message):
                recent[key].append(request)


def _best(
    table: RequestTable, loose: LooseTexts, candidates: set[int], messages: tuple[int, ...]
) -> Link | None:
    """The candidate that agrees best with a request's history, if it agrees well enough."""
    history = messages[:-1]
    best, earlier = max(
        ((_agreement(table, loose, request, history), request) for request in candidates),
        default=(_NO_AGREEMENT, 0),
    )
    own = turns(table, earlier)
    if not best.alike or 2 * best.alike < min(len(own), len(messages) - 1):
        return None
    return Link(earlier=earlier, exact=messages[: len(own)] == own)


def _agreement(
    table: RequestTable, loose: LooseTexts, request: int, history: tuple[int, ...]
) -> _Agreement:
    """Whether the request's answer is in a history, and how many of its messages are.

    None count unless one of those that it brought itself is there. Results of tools look alike in
    all conversations: they tell nothing unless something else is there as it was.
    """
    openings = Counter(loose.opening(message) for message in history)
    output = table.output(request)
    answered = output is not None and loose.opening(output) in openings
    own = turns(table, request)
    asked = _asked(table, own)
    found = [m for m in asked if any(loose.are_alike(m, other) for other in history)]
    same = len(set(own) & set(history))
    results = all(table.store.roles[message] == "tool" for message in found)
    if not found or (results and not same and not answered):
        return _Agreement(answered, 0, 0)
    before = Counter(loose.opening(message) for message in own[: len(own) - len(asked)])
    alike = len(found) + (before & openings).total()
    return _Agreement(answered, alike + same, alike)


def _asked(table: RequestTable, messages: tuple[int, ...]) -> tuple[int, ...]:
    """The messages behind the last answer: what the request itself brought."""
    start = len(messages)
    while start > 0 and table.store.roles[messages[start - 1]] != "assistant":
        start -= 1
    return messages[start:]


def _last_answer(table: RequestTable, messages: tuple[int, ...]) -> int | None:
    for at in range(len(messages) - 2, 0, -1):
        if table.store.roles[messages[at]] == "assistant":
            return at
    return None
