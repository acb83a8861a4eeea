"""The fleet as the gateway's settings want it."""

from collections.abc import Callable

from app.books import BookShelf
from app.engine import EngineClient, KvEventsAddress
from app.errors import InvalidRequestError, InvalidSettingError
from app.fleet.addresses import Listening
from app.fleet.choosing import Chooser
from app.fleet.fleet import Fleet
from app.fleet.following import Following
from app.fleet.orders import Orders
from app.fleet.sources import open_discovery
from app.replica import Replica
from app.replica_view import ReplicaView
from app.routing import open_policy
from app.settings import EngineSettings, Settings
from app.tiers import Tiers
from app.tokenizers import Tokenizers
from app.upstream import Timeouts, Upstream
from cache.prefix_index import PrefixIndex


def open_fleet(
    settings: Settings,
    shelf: BookShelf,
    *,
    tiers: Tiers | None = None,
    on_restart: Callable[[str], None] | None = None,
    on_remove: Callable[[str], None] | None = None,
) -> Fleet:
    """A fleet without replicas; nothing is asked yet."""
    tokenizers, engine = Tokenizers(), settings.engine
    known_tiers = tiers or Tiers(settings)

    def make(name: str, url: str, index_of: Callable[[Replica], PrefixIndex | None]) -> Replica:
        tier = known_tiers.of(name, url)
        replica = Replica(
            name,
            engine_client(engine, url),
            tokenizer_folder=engine.tokenizer,
            tokenizers=tokenizers,
            give_up_s=engine.silent_s,
            index_of=index_of,
            kv_events=_given_events(engine, url),
            tier=tier,
        )
        if tier.name:
            tier.measure(replica.speed)
        return replica

    def index_of(view: ReplicaView) -> PrefixIndex | None:
        return shelf.of(view).index if settings.accounting.enabled else None

    chooser = Chooser(
        open_policy(settings.routing),
        opening_tokens=settings.routing.opening_tokens,
    )
    return Fleet(make, chooser, index_of=index_of, on_restart=on_restart, on_remove=on_remove)


async def meet_replicas(fleet: Fleet, settings: Settings, orders: Orders) -> Following:
    """Add the replicas that the settings name, do what was ordered of them, and meet those that
    answer.

    Raises:
        InvalidSettingError: a URL is none, or named twice, or the source of replicas isn't set.
    """
    told = settings.replicas
    if told.discovery == "static":
        for number, url in enumerate(told.urls or (settings.engine.url,)):
            try:
                await fleet.add(url, name=f"engine-{number}")
            except (InvalidRequestError, ValueError) as error:
                setting = "replicas.urls" if told.urls else "engine.url"
                raise InvalidSettingError(setting, str(error)) from error
    urls = [replica.client.url for replica in fleet.replicas]
    discovery = open_discovery(told.discovery, urls=urls, dns=told.dns, kubernetes=told.kubernetes)
    own = Listening(settings.gateway.host, settings.gateway.port)
    following = Following(fleet, discovery, every_s=told.discover_s, orders=orders, own=own)
    await following.look()
    await orders.look()
    if told.discovery != "static" and following.found and following.problem is None:
        await orders.forget_all_but(following.found)
    await fleet.open()
    return following


def engine_client(engine: EngineSettings, url: str) -> EngineClient:
    """A client of one engine.

    Raises:
        ValueError: not an http or https URL.
    """
    timeouts = Timeouts(
        connect_s=engine.connect_timeout_s,
        first_byte_s=engine.first_byte_timeout_s,
        between_bytes_s=engine.between_bytes_timeout_s,
    )
    return EngineClient(Upstream(url, timeouts=timeouts, max_connections=engine.max_connections))


def _given_events(engine: EngineSettings, url: str) -> KvEventsAddress | None:
    """The setting is of the engine at `engine.url`; others tell their own."""
    if engine.kv_events is None or url.rstrip("/") != engine.url.rstrip("/"):
        return None
    return KvEventsAddress(events=engine.kv_events, replay=engine.kv_events_replay)
