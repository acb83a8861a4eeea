"""The excerpts of each turn of a conversation about a collection: found once, then left in place.

A follow-up's prompt shows every earlier user message as it was shown when it was the last, with the
excerpts that were found for it then; what is found now comes behind. So its prompt begins with the
whole of the one before. What is no longer remembered is searched for again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import anyio

from app.conversations import Conversations, Turn, conversation_keys
from app.errors import InvalidRequestError
from app.schemas import ForewordOptions, Mode
from app.settings import RetrievalSettings
from app.turn_text import TurnWriter
from prompts import Message
from retrieval import (
    Collection,
    CollectionFile,
    Collections,
    Excerpt,
    FileStatus,
    Order,
    ScoredChunk,
    assemble,
)
from retrieval.assembly import CachedTokens
from retrieval.errors import InvalidFilterError
from retrieval.filters import Filter, canonical, matches, may_see, parse_filter

_MOST_FOUND = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How a request's excerpts are chosen."""

    passages: int
    order: Order = Order.COLLECTION
    filters: Filter | None = None
    groups: tuple[str, ...] = ()
    rerank: bool = False
    score_threshold: float | None = None

    @classmethod
    def of(cls, settings: RetrievalSettings, options: ForewordOptions) -> "SearchOptions":
        """A request's own, and the operator's where it says nothing.

        Raises:
            InvalidRequestError: the filters aren't in OpenAI's shape.
        """
        try:
            filters = parse_filter(options.filters) if options.filters else None
        except InvalidFilterError as error:
            raise InvalidRequestError(str(error), param="foreword.filters") from error
        return cls(
            passages=options.passages or settings.passages,
            order=Order(options.order or settings.order),
            filters=filters,
            groups=tuple(sorted(set(options.groups))),
            rerank=options.rerank,
            score_threshold=options.score_threshold,
        )

    @property
    def narrows(self) -> bool:
        """Whether not everything may be shown."""
        return self.filters is not None or bool(self.groups)

    @property
    def spelled(self) -> tuple[str, ...]:
        """All that what is shown of a turn depends on, as texts."""
        return (
            str(self.passages),
            self.order,
            canonical(self.filters),
            str(self.rerank),
            repr(self.score_threshold),
            *self.groups,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The excerpts for the last message, and what the search for them took.

    Attributes:
        scores: by chunk id, of all that was found.
        weights: document id → tokens of its chunks among those found, by the chunks' measure.
        search_s: of the search alone; None where there was none.
    """

    excerpts: tuple[Excerpt, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    search_s: float | None = None


class Turns:
    """The turns of one request's conversation.

    Args:
        about: names everything beside the messages that a turn's text depends on.
        writer: writes a user's message as the template has it.
    """

    def __init__(
        self,
        conversations: Conversations,
        collections: Collections,
        collection: Collection,
        conversation: Sequence[Message],
        *,
        about: Sequence[str],
        options: SearchOptions,
        writer: TurnWriter,
    ) -> None:
        self._conversations = conversations
        self._collections = collections
        self._collection = collection
        self._messages = conversation
        self._options = options
        self._writer = writer
        self._about = (*about, *options.spelled)
        self._keys = conversation_keys(self._about, conversation)
        self._known: dict[int, Turn] = {}

    @property
    def is_first(self) -> bool:
        """Whether no question was asked before."""
        return not self._places()

    async def recall(self) -> Mode | None:
        """Look up the earlier turns; the mode that the conversation began in, if it is known."""
        for place in self._places():
            turn = self._conversations.turn(self._keys[place + 1])
            turn = turn or self._conversations.turn(self._keys[place])
            if turn is not None:
                self._known[place] = turn
        await self._forget_what_may_not_be_shown()
        first = next(iter(self._places()), None)
        return self._known[first].mode if first in self._known else None

    async def history(self, mode: Mode, hidden: frozenset[str]) -> tuple[Message, ...]:
        """The messages before the last, each user's as it was shown; searches where it must.

        Of the documents `hidden`, which the prompt shows whole, no excerpts are shown.
        """
        if not self._writer.shows_excerpts:
            return tuple(self._messages[:-1])
        messages = list(self._messages[:-1])
        for place in self._places():
            turn = self._known.get(place)
            if turn is None:
                turn = await self._again(self._messages[place].content, mode, hidden)
                self._known[place] = turn
            messages[place] = Message(role="user", content=turn.content)
        return tuple(messages)

    async def find(
        self, mode: Mode, hidden: frozenset[str], cached_tokens: CachedTokens | None = None
    ) -> Found:
        """The excerpts for the last message, none of them shown before."""
        if mode is Mode.CAG:
            return Found()
        began = perf_counter()
        found = await self._search(self._messages[-1].content, mode, hidden)
        took = perf_counter() - began
        put_together = partial(
            assemble,
            [scored for scored in found if scored.chunk.document_id not in hidden],
            order=self._options.order,
            shown=self.shown,
            cached_tokens=cached_tokens if self.is_first else None,
        )
        weights: dict[str, int] = {}
        for scored in found:
            chunk = scored.chunk
            weights[chunk.document_id] = weights.get(chunk.document_id, 0) + chunk.token_count
        return Found(
            excerpts=tuple(await anyio.to_thread.run_sync(put_together)),
            scores={scored.chunk.id: scored.score for scored in found},
            weights=weights,
            search_s=took,
        )

    def remember(self, mode: Mode, excerpts: tuple[Excerpt, ...], answer: Message | None) -> None:
        """Keep what this turn was shown; with its answer, apart from other answers to it."""
        if not self._writer.shows_excerpts:
            return
        turn = self._turn(mode, excerpts, self._messages[-1].content)
        self._conversations.keep_turn(self._keys[-1], turn)
        if answer is not None:
            whole = conversation_keys(self._about, (*self._messages, answer))
            self._conversations.keep_turn(whole[-1], turn)

    @property
    def shown(self) -> tuple[Excerpt, ...]:
        """What earlier turns show; complete after `history`."""
        return tuple(e for _, turn in sorted(self._known.items()) for e in turn.excerpts)

    def _places(self) -> list[int]:
        """Where in the conversation earlier questions stand: user messages that were answered."""
        followed = zip(self._messages, self._messages[1:], strict=False)
        return [
            place
            for place, (message, following) in enumerate(followed)
            if message.role == "user" and following.role != "user"
        ]

    async def _again(self, question: str, mode: Mode, hidden: frozenset[str]) -> Turn:
        """A turn that isn't remembered, by the same search as then."""
        excerpts: list[Excerpt] = []
        if mode is not Mode.CAG and question.strip():
            found = await self._search(question, mode, hidden)
            fresh = [scored for scored in found if scored.chunk.document_id not in hidden]
            order = Order.COLLECTION if self._options.order is Order.CACHED else self._options.order
            excerpts = assemble(fresh, order=order, shown=self.shown)
        return self._turn(mode, tuple(excerpts), question)

    def _turn(self, mode: Mode, excerpts: tuple[Excerpt, ...], question: str) -> Turn:
        return Turn(
            mode=mode,
            revision=self._collection.revision,
            excerpts=excerpts,
            content=self._writer.content(excerpts, question),
        )

    async def _search(self, question: str, mode: Mode, hidden: frozenset[str]) -> list[ScoredChunk]:
        """Best first; in a hybrid as many beside the documents that are shown whole."""
        wanted = self._options.passages
        search = partial(
            self._collections.search,
            self._collection.id,
            question,
            min(_MOST_FOUND, 2 * wanted if hidden else wanted),
            tenant=self._collection.tenant,
            filters=self._options.filters,
            groups=self._options.groups,
            rerank=self._options.rerank,
        )
        found = await anyio.to_thread.run_sync(search)
        least = self._options.score_threshold
        if least is not None:
            found = [scored for scored in found if scored.score >= least]
        return _first(found, wanted, hidden)

    async def _forget_what_may_not_be_shown(self) -> None:
        """Documents may have been deleted since a turn, or shut to the asker's groups, or their
        attributes changed so that the request's filter keeps them out."""
        old = [t for t in self._known.values() if t.revision != self._collection.revision]
        if not any(turn.excerpts for turn in old):
            return
        load = partial(
            self._collections.list_collection_files,
            self._collection.id,
            tenant=self._collection.tenant,
        )
        open_ = _documents_to_see(await anyio.to_thread.run_sync(load), self._options)
        for place, turn in list(self._known.items()):
            if any(excerpt.document_id not in open_ for excerpt in turn.excerpts):
                del self._known[place]


def _first(found: Sequence[ScoredChunk], wanted: int, hidden: frozenset[str]) -> list[ScoredChunk]:
    """The best until so many are not hidden."""
    kept: list[ScoredChunk] = []
    left = wanted
    for scored in found:
        if left == 0:
            break
        kept.append(scored)
        left -= scored.chunk.document_id not in hidden
    return kept


def _documents_to_see(files: Sequence[CollectionFile], options: SearchOptions) -> set[str]:
    return {
        file.document_id
        for file in files
        if file.document_id is not None
        and file.status is FileStatus.COMPLETED
        and may_see(file.access, options.groups)
        and (options.filters is None or matches(options.filters, file.attributes))
    }
