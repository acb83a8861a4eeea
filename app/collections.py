"""The gateway's collections: which embedding model, which parts, and what runs beside requests."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import sqlalchemy
import structlog

from app.deletions import KvDeletions
from app.errors import InvalidSettingError
from app.settings import RetrievalSettings, Settings
from cache.steady_clock import SteadyClock
from retrieval import (
    ChunkingSettings,
    CollectionNotFoundError,
    Collections,
    Cutting,
    DocumentParser,
    EmbeddingModel,
    FusionSettings,
    HashingEmbedder,
    ParsingLimits,
    PgVectorBackend,
    ProcessEmbedder,
    ProcessReranker,
    RetrievalError,
    SearchSettings,
    VectorBackend,
    find_model,
)

_HASHING = "hashing"
_LOOK_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEmbedder:
    """The deployment's embedder; `model` is None for `hashing`, which is none."""

    embedder: HashingEmbedder | ProcessEmbedder
    model: EmbeddingModel | None


def open_embedder(settings: RetrievalSettings) -> OpenedEmbedder:
    """What embeds documents, questions and clients' texts; `open_collections` closes it.

    Raises:
        EmbedderError: the embedding model isn't on this machine.
        InvalidSettingError: it doesn't read passages of the length that is set.
    """
    model = check_embedder(settings)
    return OpenedEmbedder(embedder=_embedder(model, settings), model=model)


def open_collections(
    settings: Settings,
    database: sqlalchemy.Engine,
    stack: AsyncExitStack,
    opened: OpenedEmbedder,
) -> Collections:
    """The collections, their ingest queue running; the stack closes them."""
    model, embedder = opened.model, opened.embedder
    parser = DocumentParser(
        ParsingLimits(
            max_seconds=settings.retrieval.parse_seconds,
            max_memory_bytes=settings.retrieval.parse_memory_bytes,
        ),
        cutting=_cutting(model, settings.retrieval),
    )
    reranker = _reranker(settings.retrieval, stack)
    collections = Collections(
        database,
        settings.home / "retrieval",
        embedder,
        embedder.count_tokens,
        chunking=ChunkingSettings(max_tokens=settings.retrieval.chunk_tokens),
        max_file_bytes=settings.gateway.max_body_bytes,
        read_file=parser.read_file,
        workers=settings.retrieval.ingest_workers,
        vectors=_vectors(settings, stack),
        searching=_searching(settings.retrieval),
        reranker=reranker,
    )
    stack.callback(collections.close)
    # Before the queue's threads are waited for: they may wait for a long file or batch.
    stack.callback(parser.close)
    if isinstance(embedder, ProcessEmbedder):
        stack.callback(embedder.close)
        if collections.has_any():
            embedder.warm()  # or the first question would wait for the model
    stack.callback(collections.queue.begin_stop)
    collections.queue.start()
    return collections


class Expiry:
    """Deletes collections that expired so long ago that nobody may have them back."""

    def __init__(
        self, collections: Collections, deletions: KvDeletions, *, now: Callable[[], float]
    ) -> None:
        self._collections = collections
        self._deletions = deletions
        self._now = now
        self._clock = SteadyClock(now=now)
        self._log = structlog.get_logger()

    async def watch(self) -> None:
        """Look every minute, for ever."""
        while True:
            try:
                await self.look()
            except (RetrievalError, sqlalchemy.exc.SQLAlchemyError) as error:
                self._log.warning("expiry_waits", problem=str(error))
            await anyio.sleep(_LOOK_EVERY_S)

    async def look(self) -> None:
        """Delete what is overdue, unless the time of day isn't to be believed."""
        if self._clock.is_steady():
            await self.delete_overdue()

    async def delete_overdue(self) -> None:
        """Delete what is overdue now, with the KV of its prompts; the files stay."""
        for due in await anyio.to_thread.run_sync(self._collections.overdue, self._now()):
            self._log.info("collection_removed", collection=due.id, expired_at=due.expires_at)
            try:
                await self._deletions.delete_collection(due.id, tenant=due.tenant)
            except CollectionNotFoundError:
                continue  # its owner was faster


def check_embedder(settings: RetrievalSettings) -> EmbeddingModel | None:
    """The embedding model that is set; None for `hashing`, which is none.

    Raises:
        EmbedderError: it isn't on this machine.
        InvalidSettingError: it doesn't read passages of the length that is set.
    """
    if settings.embedder == _HASHING:
        return None
    model = find_model(settings.embedder)
    if settings.chunk_tokens > model.max_tokens:
        raise InvalidSettingError(
            "retrieval.chunk_tokens",
            f"it is {settings.chunk_tokens}, and {settings.embedder!r} reads no more than "
            f"{model.max_tokens} tokens of a passage",
        )
    return model


def _embedder(
    model: EmbeddingModel | None, settings: RetrievalSettings
) -> HashingEmbedder | ProcessEmbedder:
    if model is None:
        return HashingEmbedder()
    return ProcessEmbedder(model, threads=settings.embedder_threads)


def _cutting(model: EmbeddingModel | None, settings: RetrievalSettings) -> Cutting:
    """Measured as the embedder measures."""
    tokenizer = None if model is None else str(model.folder)
    return Cutting(max_tokens=settings.chunk_tokens, tokenizer=tokenizer)


def _searching(settings: RetrievalSettings) -> SearchSettings:
    if settings.vector_weight + settings.lexical_weight == 0:
        raise InvalidSettingError(
            "retrieval.vector_weight", "it and lexical_weight are 0: nothing would be found"
        )
    return SearchSettings(
        fusion=FusionSettings(
            vector_weight=settings.vector_weight,
            lexical_weight=settings.lexical_weight,
        )
    )


def _vectors(settings: Settings, stack: AsyncExitStack) -> VectorBackend | None:
    """None: FAISS beside the files."""
    if settings.retrieval.vectors == "faiss":
        return None
    told = settings.retrieval.vectors_url or settings.database.url
    try:
        url = sqlalchemy.make_url(told.get_secret_value() if told else "")
    except sqlalchemy.exc.ArgumentError:
        url = None
    if url is None or url.get_backend_name() != "postgresql":
        raise InvalidSettingError(
            "retrieval.vectors_url", "vectors = pgvector needs the postgresql:// URL of a server"
        )
    # A pool of its own: who holds a connection to the database never waits for another of it.
    engine = sqlalchemy.create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        pool_timeout=10,
        pool_recycle=1800,
        connect_args={"connect_timeout": 5, "application_name": "foreword-vectors"},
    )
    stack.callback(engine.dispose)
    return PgVectorBackend(engine)


def _reranker(settings: RetrievalSettings, stack: AsyncExitStack) -> ProcessReranker | None:
    if settings.reranker is None:
        return None
    reranker = ProcessReranker(settings.reranker, threads=settings.reranker_threads)
    stack.callback(reranker.close)
    return reranker
