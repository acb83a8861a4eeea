"""What a request's prompt shows of a collection: the whole of it, what was found, or some of both.

The mode is decided first; then the conversation so far is put together as it was shown, and what
is found for the last message comes behind it.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from app.errors import CorpusRestrictedError, CorpusTooLargeError, InvalidRequestError
from app.modes import Decision
from app.prepared import Retrieval, Source, source_of
from app.schemas import ForewordOptions, Mode
from app.services import Services
from app.turn_text import TurnWriter, shown
from app.turns import SearchOptions, Turns
from cache.report_numbers import plural
from prompts import Message, PromptDocument
from retrieval import Collection, Excerpt
from retrieval.assembly import CachedTokens

# Where only the engine has the tokenizer.
_CHARACTERS_A_TOKEN = 4
_NO_ROOM = (
    "its documents and the conversation so far don't fit the model's window together, so passages "
    "are retrieved"
)
_NO_CORE = "no document was found often enough yet to stand in front, so all is retrieved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The documents of a request, and how they were chosen.

    Attributes:
        documents, pad: shown whole, before the conversation.
        excerpts: found for the last message, shown with it.
        history: the messages before the last, as they were shown; None where they are the client's.
        sources: all passages that the prompt shows, those found for the last message first.
        retrieval: what the search found; None without a collection.
        retrieved: makes the same by retrieval, for when the whole leaves no room; None where it is
            by retrieval already, or the request names a mode.
        remember: takes the answer, and keeps what this turn was shown for its follow-ups.
    """

    documents: tuple[PromptDocument, ...] = ()
    pad: str = ""
    excerpts: tuple[PromptDocument, ...] = ()
    history: tuple[Message, ...] | None = None
    sources: tuple[Source, ...] = ()
    collection: str | None = None
    collection_id: str | None = None
    mode: Mode | None = None
    reason: str | None = None
    decision: Decision | None = None
    retrieval: Retrieval | None = None
    remember: Callable[[Message | None], None] | None = field(default=None, repr=False)
    retrieved: "Callable[[], Awaitable[Context]] | None" = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a collection.

    Attributes:
        conversation: the client's messages, the last one the question.
        template: reference of the prompt's template.
        room_tokens: kept for the answer.
        count: tokens of a text; None where only the engine can count. It may raise
            TooManyTokensError.
        cached: how many tokens are cached of a prompt with these history, documents and excerpts.
    """

    tenant: str
    options: ForewordOptions
    conversation: Sequence[Message]
    template: str
    writer: TurnWriter
    room_tokens: int = 1
    count: Callable[[str], int] | None = None
    cached: Callable[[Context], int] | None = field(default=None, repr=False)


async def find_context(services: Services, asked: Asked) -> Context:
    """What the request asks to be answered from; nothing, where it names no collection.

    Raises:
        InvalidRequestError: a mode without a collection, or a collection without documents.
        CollectionNotFoundError: the tenant has no such collection.
        TooManyTokensError: the question alone is longer than the model's window by far.
    """
    options = asked.options
    if options.collection is None:
        if options.mode is not None:
            raise InvalidRequestError("a mode needs a collection", param="foreword.mode")
        return Context()
    if asked.conversation[-1].role != "user":
        raise InvalidRequestError("the last message must be the user's", param="messages")
    if not asked.conversation[-1].content.strip():
        raise InvalidRequestError(
            "the last message is empty: there is nothing to look for", param="messages"
        )
    collection = await anyio.to_thread.run_sync(
        partial(services.collections.resolve, options.collection, tenant=asked.tenant)
    )
    search = SearchOptions.of(services.settings.retrieval, options)
    turns = Turns(
        services.conversations,
        services.collections,
        collection,
        asked.conversation,
        about=(services.salts.of(asked.tenant, collection.id), asked.template),
        options=search,
        writer=asked.writer,
    )
    decision = await _decide(services, asked, collection, search, await turns.recall())
    whole, decision = await _whole(services, asked, collection, decision)
    context = await _found(asked, collection, turns, whole, decision)
    if whole.documents and options.mode not in (Mode.CAG, Mode.HYBRID):
        by_retrieval = replace(decision, mode=Mode.RAG, reason=_NO_ROOM)
        retrieved = partial(_found, asked, collection, turns, _Whole(), by_retrieval)
        context = replace(context, retrieved=retrieved)
    if not context.sources:
        await check_not_empty(services, collection)
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """Documents that the prompt shows whole."""

    documents: tuple[PromptDocument, ...] = ()
    ids: frozenset[str] = frozenset()
    pad: str = ""
    sources: tuple[Source, ...] = ()


async def _decide(
    services: Services,
    asked: Asked,
    collection: Collection,
    search: SearchOptions,
    began_in: Mode | None,
) -> Decision:
    *earlier, last = asked.conversation
    question = last.content
    tokens = len(question) // _CHARACTERS_A_TOKEN
    if asked.count is not None:
        count = partial(asked.count, question)
        tokens = await services.aside.done(count, characters=len(question))
    # What was said before leaves no room either; about how much is enough to know here.
    said = sum(len(message.content) for message in earlier) // _CHARACTERS_A_TOKEN
    return await services.modes.choose(
        collection,
        asked=asked.options.mode,
        filtered=search.narrows,
        conversation_mode=began_in,
        question_tokens=tokens,
        answer_tokens=asked.room_tokens + said,
    )


async def _whole(
    services: Services, asked: Asked, collection: Collection, decision: Decision
) -> tuple[_Whole, Decision]:
    """What is shown whole; where it can't be and nobody asked for it, the answer is retrieved."""
    match decision.mode:
        case Mode.CAG:
            try:
                prefix = await services.corpora.prefix(collection)
            except (CorpusTooLargeError, CorpusRestrictedError) as error:
                if asked.options.mode is Mode.CAG:
                    raise
                return _Whole(), replace(decision, mode=Mode.RAG, reason=str(error))
            whole = _Whole(documents=prefix.documents, pad=prefix.pad, sources=prefix.sources)
            return whole, decision
        case Mode.HYBRID:
            core = await services.cores.read(collection, services.modes.core(collection))
            whole = _Whole(documents=core.documents, ids=frozenset(core.ids), sources=core.sources)
            if not core.documents:
                decision = replace(decision, reason=f"{decision.reason}; {_NO_CORE}")
            return whole, decision
    return _Whole(), decision


async def _found(
    asked: Asked, collection: Collection, turns: Turns, whole: _Whole, decision: Decision
) -> Context:
    mode = decision.mode
    context = Context(
        documents=whole.documents,
        pad=whole.pad,
        history=await turns.history(mode, whole.ids),
        collection=collection.name,
        collection_id=collection.id,
        mode=mode,
        reason=decision.reason,
        decision=decision,
    )
    found = await turns.find(mode, whole.ids, _cached_tokens(asked, context))
    passages = shown(found.excerpts)
    in_message = asked.writer.shows_excerpts
    return replace(
        context,
        documents=whole.documents if in_message else (*whole.documents, *passages),
        excerpts=passages if in_message else (),
        sources=(
            *_sources(found.excerpts, found.scores),
            *_sources(turns.shown, {}),
            *whole.sources,
        ),
        retrieval=Retrieval(
            first_turn=turns.is_first,
            documents=tuple(excerpt.document_id for excerpt in found.excerpts),
            found=found.weights,
            search_s=found.search_s,
        ),
        remember=partial(turns.remember, mode, found.excerpts),
    )


def _cached_tokens(asked: Asked, context: Context) -> CachedTokens | None:
    cached = asked.cached
    if cached is None:
        return None

    def of(excerpts: Sequence[Excerpt]) -> int:
        return cached(replace(context, excerpts=shown(excerpts)))

    return of


def _sources(excerpts: Sequence[Excerpt], scores: Mapping[str, float]) -> Iterator[Source]:
    """The passages of excerpts, each as its document has it."""
    for excerpt in excerpts:
        for part in excerpt.parts:
            yield replace(source_of(part.chunk), score=scores.get(part.chunk.id))


async def check_not_empty(services: Services, collection: Collection) -> None:
    """Refuse a collection without any document, and say what became of its files.

    Raises:
        InvalidRequestError: it holds none.
    """
    size = await anyio.to_thread.run_sync(
        partial(services.collections.size, collection.id, tenant=collection.tenant)
    )
    if size.document_count:
        return
    what = f"add one with `foreword ingest {collection.name} PATHS`"
    if size.in_progress_files:
        waiting = plural(size.in_progress_files, "file")
        what = f"{waiting} still to be read: ask again when that is done"
    elif size.failed_files:
        failed = plural(size.failed_files, "file")
        what = f"{failed} failed: GET /v1/vector_stores/{collection.id}/files says why"
    raise InvalidRequestError(
        f"collection {collection.name!r} holds no document yet; {what}",
        param="foreword.collection",
    )
