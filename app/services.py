"""What a request needs, built once: the composition root of the gateway."""

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
import sqlalchemy
import structlog
from starlette.requests import HTTPConnection

from app.accounting import RequestAccounting
from app.collections import Expiry, open_collections
from app.conversations import Conversations
from app.cores import Cores
from app.corpora import Corpora
from app.crosscheck import EngineCounters
from app.database import open_database
from app.deletions import KvDeletions, read_epochs
from app.engine import EngineClient
from app.engine_check import EngineCheck
from app.engine_speed import EngineSpeed
from app.metrics import Metrics
from app.modes.opening import open_modes
from app.modes.policy import ModePolicy
from app.replica import Replica
from app.salt_key import require_same_secret
from app.salts import Salts, load_or_create_secret
from app.settings import Settings
from app.tier_client import TierClient
from app.tier_policy import TierPolicy
from app.tier_watch import TierWatch
from app.upstream import Timeouts, Upstream
from cache.labels import LabelCaps
from cache.ledger import Ledger
from cache.retention import Retention
from prompts import TemplateLibrary, load_templates, shipped_templates
from retrieval import Collections

LOCAL_TENANT = "local"
_WATCH_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that lives as long as the gateway."""

    settings: Settings
    database: sqlalchemy.Engine
    templates: TemplateLibrary
    collections: Collections
    corpora: Corpora
    cores: Cores
    conversations: Conversations
    modes: ModePolicy
    replica: Replica
    counters: EngineCounters
    engine_check: EngineCheck
    speed: EngineSpeed
    accounting: RequestAccounting
    ledger: Ledger
    salts: Salts
    deletions: KvDeletions
    metrics: Metrics
    started: datetime
    tier_watch: TierWatch | None = None
    tier_policy: TierPolicy | None = None


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
        database = _database(settings)
        stack.callback(database.dispose)
        require_same_secret(database, secret, settings.home / "hmac.key")
        ledger = _ledger(settings, database)
        stack.callback(ledger.close)
        client = _client(settings)
        stack.callback(client.close)
        services = _services(settings, secret, database, ledger, client, stack)
        await services.replica.refresh()
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        for watch in _watches(services):
            tasks.start_soon(kept_going, watch)
        yield services


async def kept_going(watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a watch for ever; a fault in one is logged and takes neither the others nor requests."""
    while True:
        try:
            await watch()
        except Exception:  # noqa: BLE001 - the boundary of a background task
            structlog.get_logger().exception("watch_failed", watch=watch.__qualname__)
        await anyio.sleep(_WATCH_AGAIN_S)


def _services(
    settings: Settings,
    secret: bytes,
    database: sqlalchemy.Engine,
    ledger: Ledger,
    client: EngineClient,
    stack: AsyncExitStack,
) -> Services:
    tiers = _tier_client(settings, stack)
    watch = TierWatch(tiers) if tiers else None
    replica = Replica("engine-0", client, tokenizer_folder=settings.engine.tokenizer)
    counters, speed = EngineCounters(client), EngineSpeed(client)
    accounting = RequestAccounting(
        settings, replica, key=secret, counters=counters, client=tiers, watch=watch
    )
    stack.callback(accounting.close)
    for looks in (counters.looks, *([watch.looks] if watch else [])):
        stack.callback(looks.close)
    salts = Salts(secret, read_epochs(database))
    collections = open_collections(settings, database, stack)
    templates = _templates(settings)
    corpora = Corpora(
        settings.corpora,
        collections=collections,
        templates=templates,
        replica=replica,
        accounting=accounting,
        salts=salts,
        database=database,
    )
    tier_policy = _tier_policy(settings, tiers, watch, speed) if tiers and watch else None
    return Services(
        settings=settings,
        database=database,
        templates=templates,
        collections=collections,
        corpora=corpora,
        modes=open_modes(
            settings.modes,
            database,
            collections=collections,
            corpora=corpora,
            replica=replica,
            speed=speed,
            tiers=tier_policy,
        ),
        cores=Cores(collections),
        conversations=Conversations(max_bytes=settings.gateway.conversation_mb * 2**20),
        replica=replica,
        counters=counters,
        engine_check=EngineCheck(counters, chunk_tokens=accounting.chunk_tokens),
        speed=speed,
        accounting=accounting,
        ledger=ledger,
        salts=salts,
        deletions=KvDeletions(database, salts, collections, tiers, forget=accounting.forget),
        metrics=Metrics(),
        started=datetime.now(UTC),
        tier_watch=watch,
        tier_policy=tier_policy,
    )


def _tier_policy(
    settings: Settings, tiers: TierClient, watch: TierWatch, speed: EngineSpeed
) -> TierPolicy:
    switch = settings.tiers.break_even == "auto"
    return TierPolicy(tiers, watch, speed, switch=switch)


def _templates(settings: Settings) -> TemplateLibrary:
    """Raises TemplateError: a file is at fault, or two files are the same template."""
    own = load_templates(settings.templates) if settings.templates else ()
    return TemplateLibrary((*load_templates(shipped_templates()), *own))


def _watches(services: Services) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
    """What runs beside the requests, for ever."""
    yield services.replica.watch
    yield services.counters.watch
    yield services.speed.watch
    yield services.accounting.follow
    yield services.deletions.work
    yield Expiry(services.collections, services.deletions, now=time.time).watch
    yield services.corpora.watch
    yield services.modes.watch
    if services.tier_watch is not None:
        yield services.tier_watch.watch
    if services.tier_policy is not None:
        yield services.tier_policy.watch


def _label_caps(settings: Settings) -> LabelCaps:
    most = settings.ledger.max_labels
    return LabelCaps(tenant=most, collection=most)


def _database(settings: Settings) -> sqlalchemy.Engine:
    """Raises HomeError, DatabaseError."""
    url = settings.database.url
    where = url.get_secret_value() if url else settings.home / "foreword.db"
    return open_database(where, caps=_label_caps(settings))


def _ledger(settings: Settings, database: sqlalchemy.Engine) -> Ledger:
    kept = settings.ledger
    retention = Retention(
        rows_days=kept.rows_days,
        hourly_days=kept.hourly_days,
        daily_days=kept.daily_days,
        max_rows=kept.max_rows,
    )
    return Ledger(database, flush_s=kept.flush_s, caps=_label_caps(settings), retention=retention)


def _tier_client(settings: Settings, stack: AsyncExitStack) -> TierClient | None:
    if settings.tiers.url is None:
        return None
    client = TierClient(settings.tiers.url, timeout_s=settings.tiers.timeout_s)
    stack.callback(client.close)
    return client


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
