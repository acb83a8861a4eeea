"""The documents that a request's prompt shows: passages that were found, or a whole collection."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio

from app.errors import InvalidRequestError
from app.prepared import Source
from app.schemas import ChatCompletionRequest, Mode
from app.services import Services
from prompts import Message, PromptDocument
from retrieval import Chunk, Collection, for_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The documents of a request, and how they were chosen."""

    documents: tuple[PromptDocument, ...] = ()
    sources: tuple[Source, ...] = ()
    collection: str | None = None
    collection_id: str | None = None
    mode: Mode | None = None
    reason: str | None = None


async def find_context(
    services: Services,
    request: ChatCompletionRequest,
    conversation: Sequence[Message],
    *,
    tenant: str,
) -> Context:
    """What the request asks to be answered from; nothing, where it names no collection.

    Raises:
        InvalidRequestError: a mode without a collection, or a collection without documents.
        CollectionNotFoundError: the tenant has no such collection.
    """
    options = request.foreword
    if options is None or options.collection is None:
        if options is not None and options.mode is not None:
            raise InvalidRequestError("a mode needs a collection", param="foreword.mode")
        return Context()
    collection = await anyio.to_thread.run_sync(
        partial(services.collections.resolve, options.collection, tenant=tenant)
    )
    if options.mode is Mode.CAG:
        context = await _whole_corpus(services, collection)
    else:
        context = await _passages(services, collection, conversation[-1].content)
    if not context.documents:
        raise InvalidRequestError(
            f"collection {collection.name!r} holds no document yet; add one with "
            f"`foreword ingest {collection.name} PATHS`",
            param="foreword.collection",
        )
    return context


async def _whole_corpus(services: Services, collection: Collection) -> Context:
    load = partial(services.collections.corpus, collection.id, tenant=collection.tenant)
    documents = await anyio.to_thread.run_sync(load)
    cut = partial(services.collections.corpus_chunks, collection.id, tenant=collection.tenant)
    chunks = await anyio.to_thread.run_sync(cut)
    return Context(
        documents=tuple(PromptDocument(name=d.name, text=d.text) for d in documents),
        sources=tuple(_source(c) for c in chunks),
        collection=collection.name,
        collection_id=collection.id,
        mode=Mode.CAG,
        reason="asked for",
    )


async def _passages(services: Services, collection: Collection, query: str) -> Context:
    search = partial(
        services.collections.search,
        collection.id,
        query,
        services.settings.retrieval.passages,
        tenant=collection.tenant,
    )
    chunks = for_prompt(await anyio.to_thread.run_sync(search))
    return Context(
        documents=tuple(PromptDocument(name=c.name, text=c.text) for c in chunks),
        sources=tuple(_source(c) for c in chunks),
        collection=collection.name,
        collection_id=collection.id,
        mode=Mode.RAG,
        reason="default",
    )


def _source(chunk: Chunk) -> Source:
    return Source(
        document=chunk.name,
        text=chunk.text,
        page=chunk.page,
        heading=" > ".join(chunk.heading_path) or None,
    )
