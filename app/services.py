"""What a request needs, built once: the composition root of the gateway."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio
import sqlalchemy
from starlette.requests import HTTPConnection

from app.crosscheck import EngineCounters
from app.database import open_database
from app.engine import EngineClient
from app.metrics import Metrics
from app.replica import Replica
from app.salts import Salts, load_or_create_secret
from app.settings import Settings
from app.upstream import Timeouts, Upstream
from cache.ledger import Ledger
from prompts import TemplateLibrary, load_templates, shipped_templates
from retrieval import ChunkingSettings, Collections, HashingEmbedder, minilm_embedder

LOCAL_TENANT = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that lives as long as the gateway."""

    settings: Settings
    database: sqlalchemy.Engine
    templates: TemplateLibrary
    collections: Collections
    replica: Replica
    counters: EngineCounters
    ledger: Ledger
    salts: Salts
    metrics: Metrics
    started: datetime


def services_of(connection: HTTPConnection) -> Services:
    """The services of the app that a request came to."""
    services = connection.app.state.services
    assert isinstance(services, Services)
    return services


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open each service in order; close them in reverse.

    Raises:
        HomeError: the home folder can't be used.
        TemplateError: a template file is at fault.
    """
    async with AsyncExitStack() as stack:
        secret = load_or_create_secret(settings.home / "hmac.key")
        database = open_database(settings.home / "foreword.db")
        stack.callback(database.dispose)
        ledger = Ledger(database, flush_s=settings.ledger.flush_s)
        stack.callback(ledger.close)
        client = _client(settings)
        stack.callback(client.close)
        replica = Replica("engine-0", client, tokenizer_folder=settings.engine.tokenizer)
        counters = EngineCounters(client)
        services = Services(
            settings=settings,
            database=database,
            templates=load_templates(shipped_templates()),
            collections=_collections(settings, database),
            replica=replica,
            counters=counters,
            ledger=ledger,
            salts=Salts(secret),
            metrics=Metrics(),
            started=datetime.now(UTC),
        )
        await replica.refresh()
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(replica.watch)
        tasks.start_soon(counters.watch)
        yield services


def _client(settings: Settings) -> EngineClient:
    engine = settings.engine
    timeouts = Timeouts(
        connect_s=engine.connect_timeout_s,
        first_byte_s=engine.first_byte_timeout_s,
        between_bytes_s=engine.between_bytes_timeout_s,
    )
    return EngineClient(
        Upstream(engine.url, timeouts=timeouts, max_connections=engine.max_connections)
    )


def _collections(settings: Settings, database: sqlalchemy.Engine) -> Collections:
    hashing = settings.retrieval.embedder == "hashing"
    embedder = HashingEmbedder() if hashing else minilm_embedder()
    return Collections(
        database,
        settings.home / "retrieval",
        embedder,
        embedder.count_tokens,
        chunking=ChunkingSettings(max_tokens=settings.retrieval.chunk_tokens),
        max_file_bytes=settings.gateway.max_body_bytes,
    )
