"""The causes for which requests of one template do not share what they could.

A cause is what a comparison of two requests shows; whether it costs anything is decided later, by
replaying the requests without it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from cache.request_log.canonical_texts import spell_alike
from cache.request_log.conversations import Link, head_messages, turns
from cache.request_log.groups import Group
from cache.request_log.histories import Rewrite, compare_turns
from cache.request_log.loose import LooseTexts
from cache.request_log.pieces import split_pieces
from cache.request_log.structures import compare
from cache.request_log.table import RequestTable
from cache.request_log.tool_lists import changed_tool, compare_tools

_SAMPLES = 24
_LINK_SAMPLES = 400
_FEW_VARIANTS = 4
_REPEATED = 3
# Readings of one kind of difference; where pairs disagree, the commonest is taken.
_RIVALS = (
    frozenset(("FW101", "FW104", "FW105", "FW106", "FW501")),
    frozenset(("FW107", "FW204", "FW209", "FW502")),
)
_LEAST_EXAMPLE_TURNS = 3
_DUPLICATE_SAMPLES = 64
# Repeated text is a passage from this length on, in characters.
_LEAST_DUPLICATE = 256
_PLACES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A rule that a group's requests break, and the two requests that show it.

    `part` says where: the head (system messages), the tools, the first message, the history.
    `seen` of `compared` pairs show it. `one` and `other` are the texts that differ.
    """

    code: str
    part: str
    earlier: int
    later: int
    one: str
    other: str
    sure: bool
    seen: int = 1
    compared: int = 1


HEAD, TOOLS, FIRST, HISTORY = "system message", "tools", "user message", "history"


def find_causes(
    table: RequestTable, loose: LooseTexts, group: Group, links: Sequence[Link | None]
) -> list[Cause]:
    """The group's causes, in the order in which prompts are read."""
    found = [
        *_head_causes(table, group, links),
        *_tool_causes(table, group, links),
        *_first_message_causes(table, group, links),
        *_example_turn_causes(table, group, links),
        *_duplicate_causes(table, group),
        *_history_causes(table, loose, group, links),
    ]
    return _merged(found)


def _merged(causes: list[Cause]) -> list[Cause]:
    """One cause for each code and part: the first, with the counts of all."""
    first: dict[tuple[str, str], Cause] = {}
    seen: Counter[tuple[str, str]] = Counter()
    sure: Counter[tuple[str, str]] = Counter()
    for cause in causes:
        key = (cause.code, cause.part)
        first.setdefault(key, cause)
        seen[key] += cause.seen
        sure[key] += cause.sure
    merged = {
        key: replace(cause, sure=2 * sure[key] >= seen[key], seen=seen[key])
        for key, cause in first.items()
    }
    return [cause for cause in merged.values() if not _is_rival(cause, merged.values())]


def _is_rival(cause: Cause, causes: Collection[Cause]) -> bool:
    """Whether another reading of the same differences was met more often."""
    return any(
        other is not cause and other.part == cause.part and other.seen > cause.seen
        for rivals in _RIVALS
        if cause.code in rivals
        for other in causes
        if other.code in rivals
    )


def head_text(table: RequestTable, request: int) -> str:
    """The text of a request's leading system messages."""
    return "".join([table.store.text(message) for message in head_messages(table, request)])


def _head_causes(
    table: RequestTable, group: Group, links: Sequence[Link | None]
) -> Iterator[Cause]:
    samples = _distinct(
        group.requests, [head_messages(table, request) for request in group.requests]
    )
    users = tuple({table.user(request) for request in samples} - {""})
    few = len(samples) <= min(_FEW_VARIANTS, len(group.requests) // _REPEATED)
    releases = few and _one_after_the_other([head_messages(table, r) for r in group.requests])
    by_turn = any(
        link and head_messages(table, link.earlier) != head_messages(table, request)
        for request in group.requests
        if (link := links[request])
    )
    for earlier, later in pairwise(samples):
        texts = (head_text(table, earlier), head_text(table, later))
        pair = _Pair(HEAD, earlier, later, *texts, len(samples) - 1)
        for cause in _text_causes(pair, users, anywhere=by_turn):
            if releases and cause.code != "FW102":
                continue
            branch = few and not cause.sure and cause.code in ("FW101", "FW501")
            yield replace(cause, code="FW106") if branch else cause


def _one_after_the_other(keys: Sequence[object]) -> bool:
    """Whether each key's requests come together, as when a template is released anew."""
    return sum(1 for one, other in pairwise(keys) if one != other) == len(set(keys)) - 1


def _distinct(requests: Sequence[int], keys: Sequence[object]) -> list[int]:
    """Some requests with different keys, in their order, spread over the log."""
    first: dict[object, int] = {}
    for request, key in zip(requests, keys, strict=True):
        first.setdefault(key, request)
    samples = list(first.values())
    step = max(1, len(samples) // _SAMPLES)
    return samples[::step][: _SAMPLES + 1]


class _Pair(NamedTuple):
    """Two requests, and the texts of one of their parts."""

    part: str
    earlier: int
    later: int
    one: str
    other: str
    compared: int

    def cause(self, code: str, one: str, other: str, *, sure: bool = True) -> Cause:
        """A cause that this pair shows."""
        return Cause(
            code=code,
            part=self.part,
            earlier=self.earlier,
            later=self.later,
            one=one,
            other=other,
            sure=sure,
            compared=self.compared,
        )


def _text_causes(pair: _Pair, users: tuple[str, ...], *, anywhere: bool = False) -> Iterator[Cause]:
    spelled = spell_alike(pair.one, pair.other)
    for code in spelled.codes:
        yield pair.cause(code, pair.one, pair.other)
    found = compare(spelled.one, spelled.other, users=users, anywhere=anywhere)
    if found:
        yield pair.cause(found.code, found.one, found.other, sure=found.sure)


def _tool_causes(
    table: RequestTable, group: Group, links: Sequence[Link | None]
) -> Iterator[Cause]:
    changes = _changes_in_conversation(table, group, links)
    # A request without tools beside one with some is another call, not another choice.
    asking = [r for r in group.requests if changes or table.store.tools(table.prompt(r).tools)]
    lists = [table.prompt(request).tools for request in asking]
    samples = _distinct(asking, lists)
    sets = {frozenset(tool.name for tool in table.store.tools(tools)) for tools in set(lists)}
    varies = changes or len(sets) > _FEW_VARIANTS
    for earlier, later in pairwise(samples):
        one = table.store.tools(table.prompt(earlier).tools)
        other = table.store.tools(table.prompt(later).tools)
        for code in compare_tools(one, other):
            if code == "FW403" and not varies:
                continue  # two fixed lists are two callers, not one that can't decide
            name = changed_tool(one, other)
            yield Cause(
                code=code,
                part=TOOLS,
                earlier=earlier,
                later=later,
                one=" ".join(tool.name for tool in one) if code in ("FW401", "FW403") else name,
                other=" ".join(tool.name for tool in other),
                sure=True,
                compared=len(samples) - 1,
            )


def _changes_in_conversation(
    table: RequestTable, group: Group, links: Sequence[Link | None]
) -> bool:
    for request in group.requests:
        link = links[request]
        if link and table.prompt(link.earlier).tools != table.prompt(request).tools:
            return True
    return False


def _first_message_causes(
    table: RequestTable, group: Group, links: Sequence[Link | None]
) -> Iterator[Cause]:
    """Causes within the first user messages of conversations: documents, examples, templates."""
    starts = [
        request for request in group.requests if links[request] is None and turns(table, request)
    ]
    samples = _distinct(starts, [turns(table, request)[0] for request in starts])
    for earlier, later in pairwise(samples):
        one = table.store.text(turns(table, earlier)[0])
        other = table.store.text(turns(table, later)[0])
        pair = _Pair(FIRST, earlier, later, one, other, len(samples) - 1)
        for cause in _text_causes(pair, ()):
            question = cause.code == "FW101" or (not cause.sure and cause.code in _RIVALS[0])
            yield replace(cause, code="FW105") if question else cause


def _example_turn_causes(
    table: RequestTable, group: Group, links: Sequence[Link | None]
) -> Iterator[Cause]:
    """Examples sent as turns of a conversation, of which each request has a choice of its own."""
    starts = [
        request
        for request in group.requests
        if links[request] is None and len(turns(table, request)) >= _LEAST_EXAMPLE_TURNS
    ]
    samples = _distinct(starts, [turns(table, request)[:-1] for request in starts])
    if len({len(turns(table, request)) for request in samples}) > 2:
        return  # conversations of every length, not a fixed number of examples
    uses = Counter(turn for request in samples for turn in set(turns(table, request)[:-1]))
    for earlier, later in pairwise(samples):
        if all(
            2 * sum(uses[turn] > 1 for turn in own) > len(own)
            for own in (turns(table, earlier)[:-1], turns(table, later)[:-1])
        ):
            yield Cause(
                code="FW107",
                part=HISTORY,
                earlier=earlier,
                later=later,
                one=table.store.text(turns(table, earlier)[0]),
                other=table.store.text(turns(table, later)[0]),
                sure=True,
                compared=len(samples) - 1,
            )


def _duplicate_causes(table: RequestTable, group: Group) -> Iterator[Cause]:
    """Passages that one message holds twice."""
    step = max(1, len(group.requests) // _DUPLICATE_SAMPLES)
    samples = group.requests[::step]
    found: dict[int, str] = {}
    for request in samples:
        for message in table.prompt(request).messages:
            if table.store.roles[message] in ("assistant", "tool"):
                continue  # not for the builder of the prompt to say once
            if message not in found:
                found[message] = repeated_text(table.store.text(message))
            if twice := found[message]:
                yield Cause(
                    code="FW504",
                    part=HEAD if table.store.is_head(message) else FIRST,
                    earlier=request,
                    later=request,
                    one=twice,
                    other=twice,
                    sure=True,
                    compared=len(samples),
                )
                break


def repeated_text(text: str) -> str:
    """The passages of a text that came before in it: long runs of the same pieces.

    A run that overlaps its earlier copy is filler or a table, not a passage sent twice.
    """
    pieces = [piece for piece in split_pieces(text) if piece.strip()]
    places: dict[str, list[int]] = {}
    runs: dict[int, int] = {}  # where a run's earlier copy ends -> where the run starts
    passages: list[str] = []
    for at, piece in enumerate([*pieces, ""]):
        earlier = places.get(piece.strip(), [])[-_PLACES:]
        if not any(place - 1 in runs for place in earlier):
            passages += _passage(pieces, runs, at)
        runs = {place: runs.get(place - 1, at) for place in earlier}
        places.setdefault(piece.strip(), []).append(at)
    return "".join(passages)


def _passage(pieces: list[str], runs: dict[int, int], stop: int) -> list[str]:
    """The pieces of the longest run that ends before `stop`, if they are a passage."""
    if not runs:
        return []
    last, start = min(runs.items(), key=lambda run: run[1])
    passage = pieces[start:stop] if last < start else []
    return passage if sum(len(piece) for piece in set(passage)) >= _LEAST_DUPLICATE else []


def _history_causes(
    table: RequestTable, loose: LooseTexts, group: Group, links: Sequence[Link | None]
) -> Iterator[Cause]:
    linked = [request for request in group.requests if links[request]]
    step = max(1, len(linked) // _LINK_SAMPLES)
    for request in linked[::step]:
        link = links[request]
        rewrite = compare_turns(table, loose, link.earlier, request) if link else None
        if link and rewrite:
            yield from _rewrite_causes(link, request, rewrite, len(linked[::step]))


def _rewrite_causes(link: Link, request: int, rewrite: Rewrite, compared: int) -> Iterator[Cause]:
    for code in rewrite.codes:
        yield Cause(
            code=code,
            part=HISTORY,
            earlier=link.earlier,
            later=request,
            one=rewrite.one,
            other=rewrite.other,
            sure=True,
            compared=compared,
        )
