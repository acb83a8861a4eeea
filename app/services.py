"""What a request needs, built once: the composition root of the gateway."""

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio
import sqlalchemy
from starlette.requests import HTTPConnection

from app.accounting import RequestAccounting
from app.admission.admission import Admission
from app.admission.keyring import KeyRing
from app.admission.opening import open_admission, open_keys
from app.agents.agents import Agents
from app.agents.mcp.servers import open_servers
from app.agents.opening import open_agents
from app.agents.toolbox import OpensTools
from app.aside import Aside
from app.background import Watch, kept_going
from app.batches.store import BatchStore
from app.books import BookShelf
from app.collections import Expiry, open_collections, open_embedder
from app.conversations import Conversations
from app.cores import Cores
from app.corpora import Corpora
from app.database import open_database
from app.deletions import KvDeletions, read_epochs
from app.embeddings import Embeddings
from app.errors import InvalidSettingError
from app.fleet.fleet import Fleet
from app.fleet.following import Following
from app.fleet.opening import meet_replicas, open_fleet
from app.fleet.order_book import OrderBook
from app.fleet.orders import Orders
from app.hot.stems import Stems
from app.loop_lag import LoopLag
from app.metrics import Metrics
from app.modes.opening import open_modes
from app.modes.policy import ModePolicy
from app.outgoing import check_names, listening
from app.response_cache.cache import ResponseCache
from app.response_cache.opening import open_response_cache
from app.responses.background.following import Followers
from app.responses.background.store import BackgroundStore
from app.salt_key import require_same_secret
from app.salts import Salts, load_or_create_secret
from app.settings import Settings
from app.shadow.opening import open_shadow
from app.shadow.shadow import Shadow
from app.shared_views.opening import open_outbox, open_shared_views
from app.stopping import Stopping
from app.stored.alive import TurnsAlive
from app.stored.expiry import StoredExpiry
from app.stored.responses import ResponseStore
from app.stored.store import ConversationStore
from app.telemetry import BeginsTraces, open_tracing
from app.tier_salts import salt_keys
from app.tiers import Tiers
from app.tool_memory import ToolLists
from app.webhooks.courier import Courier
from app.webhooks.opening import open_courier
from app.webhooks.opening import open_outbox as open_webhooks
from cache.labels import LabelCaps
from cache.ledger import Ledger
from cache.retention import Retention
from prompts import TemplateLibrary, load_templates, shipped_templates
from retrieval import Collections

if TYPE_CHECKING:
    from app.shared_views.views import SharedViews


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that lives as long as the gateway."""

    settings: Settings
    database: sqlalchemy.Engine
    templates: TemplateLibrary
    collections: Collections
    embeddings: Embeddings
    corpora: Corpora
    cores: Cores
    conversations: Conversations
    stems: Stems
    tool_lists: ToolLists
    modes: ModePolicy
    fleet: Fleet
    orders: Orders
    accounting: RequestAccounting
    ledger: Ledger
    tiers: Tiers
    salts: Salts
    keys: KeyRing
    admission: Admission
    deletions: KvDeletions
    stored: ConversationStore
    stored_responses: ResponseStore
    turns_alive: TurnsAlive
    batches: BatchStore
    agents: Agents
    background: BackgroundStore
    followers: Followers
    courier: Courier
    metrics: Metrics
    lag: LoopLag
    started: datetime
    tracing: BeginsTraces | None = None
    shared_views: "SharedViews | None" = None
    shadow: Shadow | None = None
    response_cache: ResponseCache | None = None
    stopping: Stopping = field(default_factory=Stopping)
    aside: Aside = field(default_factory=Aside)


def services_of(connection: HTTPConnection) -> Services:
    """The services of the app that a request came to."""
    services = connection.app.state.services
    assert isinstance(services, Services)
    return services


@asynccontextmanager
async def open_services(
    settings: Settings, servers: OpensTools | None = None
) -> AsyncIterator[Services]:
    """Open each service in order; close them in reverse.

    Args:
        servers: have tools of agents, in place of the MCP servers of the settings.

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
        mcp = await stack.enter_async_context(
            open_servers(settings.mcp, home=settings.home, environment=os.environ)
        )
        services = _services(settings, secret, database, ledger, servers or mcp, stack)
        await check_names(settings)
        following = await meet_replicas(services.fleet, settings, services.orders)
        stack.push_async_callback(following.aclose)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        for watch in _watches(services, following):
            tasks.start_soon(kept_going, watch)
        yield services


def _services(
    settings: Settings,
    secret: bytes,
    database: sqlalchemy.Engine,
    ledger: Ledger,
    servers: OpensTools,
    stack: AsyncExitStack,
) -> Services:
    outbox = open_outbox(settings)
    shelf = BookShelf(settings.accounting, key=secret, teller=outbox)
    accounting = RequestAccounting(settings, shelf)
    tiers = Tiers(settings, on_loss=accounting.forget_tiers)
    if tiers.shared is not None:
        stack.callback(tiers.shared.close)
    fleet = open_fleet(
        settings,
        shelf,
        tiers=tiers,
        on_restart=outbox.restarted if outbox else None,
        on_remove=accounting.forget_replica,
    )
    stack.callback(fleet.close)
    if tiers.shared is not None:
        tiers.shared.measure(fleet)
    salts = Salts(secret, read_epochs(database))
    opened = open_embedder(settings.retrieval)
    collections = open_collections(settings, database, stack, opened)
    templates = _templates(settings)
    corpora = Corpora(
        settings.corpora,
        collections=collections,
        templates=templates,
        fleet=fleet,
        accounting=accounting,
        salts=salts,
        database=database,
    )

    stems = Stems(max_bytes=settings.gateway.opening_mb * 2**20)

    metrics = Metrics()
    response_cache = open_response_cache(
        settings.response_cache, database, secret=secret, counts=metrics.response_cache
    )

    def forget(salt: str) -> None:
        accounting.forget(salt)
        stems.forget_salt(salt)
        fleet.openings.forget_salt(salt)
        if outbox is not None:
            outbox.forgot(salt)
        if response_cache is not None:
            response_cache.forget(salt)

    webhooks = open_webhooks(settings.webhooks, database)
    stored = ConversationStore(database)
    return Services(
        settings=settings,
        database=database,
        templates=templates,
        collections=collections,
        embeddings=Embeddings(opened, settings.retrieval),
        corpora=corpora,
        modes=open_modes(
            settings.modes,
            database,
            collections=collections,
            corpora=corpora,
            fleet=fleet,
        ),
        cores=Cores(collections),
        conversations=Conversations(max_bytes=settings.gateway.conversation_mb * 2**20),
        stems=stems,
        tool_lists=ToolLists(),
        fleet=fleet,
        orders=Orders(fleet, OrderBook(database), own=listening(settings)),
        accounting=accounting,
        ledger=ledger,
        tiers=tiers,
        salts=salts,
        keys=open_keys(settings, database, secret),
        admission=open_admission(settings, database, fleet, metrics, stack),
        deletions=KvDeletions(database, salts, collections, salt_keys(fleet, tiers), forget=forget),
        stored=stored,
        stored_responses=ResponseStore(database),
        turns_alive=TurnsAlive(stored),
        agents=open_agents(settings, database, templates, servers=servers),
        batches=BatchStore(database, told=webhooks),
        background=BackgroundStore(database, told=webhooks),
        followers=Followers(),
        courier=open_courier(settings.webhooks, webhooks),
        metrics=metrics,
        lag=LoopLag(),
        tracing=stack.enter_context(open_tracing(settings.telemetry)),
        started=datetime.now(UTC),
        shared_views=open_shared_views(
            settings, stack, secret=secret, outbox=outbox, shelf=shelf, fleet=fleet
        ),
        shadow=open_shadow(settings, stack, secret=secret, counts=metrics.shadow),
        response_cache=response_cache,
    )


def _templates(settings: Settings) -> TemplateLibrary:
    """The templates that ship, and those of this deployment.

    Raises:
        InvalidSettingError: there is no such folder.
        TemplateError: a file is at fault, or two files are the same template.
    """
    if settings.templates is not None and not settings.templates.is_dir():
        raise InvalidSettingError("templates", f"there is no folder {settings.templates}")
    own = load_templates(settings.templates) if settings.templates else ()
    return TemplateLibrary((*load_templates(shipped_templates()), *own))


def _watches(services: Services, following: Following) -> Iterator[Watch]:
    """What runs beside the requests, for ever."""
    yield services.fleet.watch
    yield following.watch
    yield services.orders.watch
    yield services.keys.watch
    yield from services.admission.watches()
    yield services.deletions.work
    yield Expiry(services.collections, services.deletions, now=time.time).watch
    yield services.turns_alive.watch
    yield StoredExpiry(
        services.settings.conversations,
        services.stored,
        services.stored_responses,
        services.deletions,
    ).watch
    yield services.corpora.watch
    yield services.modes.watch
    yield services.lag.watch
    if services.settings.webhooks.endpoints:
        yield services.courier.watch
    if services.tiers.shared is not None:
        yield from services.tiers.shared.watches()
    if services.shared_views is not None:
        yield services.shared_views.watch
    if services.shadow is not None:
        yield services.shadow.watch
    if services.response_cache is not None:
        yield services.response_cache.watch


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
