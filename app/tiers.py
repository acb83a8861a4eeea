"""The tier servers behind the engines: one for all of them, or one beside each.

What tiers hold is known by whose they are: a replica with a tier server of its own loads nothing
that another one's was given.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.background import Watch
from app.errors import InvalidRequestError, InvalidSettingError
from app.fleet.addresses import replica_url
from app.settings import Settings, TiersSettings
from app.tier_client import TierClient
from app.tier_policy import RAM, MeasuredSpeed, TierPolicy
from app.tier_watch import TierWatch

if TYPE_CHECKING:
    from app.replica import Replica


class TierSide:
    """The tiers of one replica, or those that all share.

    Attributes:
        name: the replica's, where they are its own; the prefix index knows them by it. Else empty.
        client: asks their server; None: nobody said where it is.
        policy: None until `measure`, or without a server.
    """

    def __init__(
        self,
        name: str,
        client: TierClient | None,
        settings: TiersSettings,
        *,
        on_loss: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.name = name
        self.client = client
        self.watch = (
            TierWatch(client, on_loss=partial(on_loss, name)) if client is not None else None
        )
        self.policy: TierPolicy | None = None
        self._settings = settings

    def measure(self, speed: MeasuredSpeed) -> None:
        """Compare what loads take with computing, from the first look on."""
        if self.client is not None and self.watch is not None:
            switch = self._settings.break_even == "auto"
            self.policy = TierPolicy(self.client, self.watch, speed, switch=switch)

    def chunk_tokens(self) -> int | None:
        """Tokens in a chunk, as far as known."""
        told = self.watch.chunk_tokens if self.watch is not None else None
        return self._settings.chunk_tokens or told

    def load_s(self) -> float | None:
        """Seconds to load one token from their RAM; None where none was measured."""
        found = self.policy.found.get(RAM) if self.policy is not None else None
        speed = found.load_tokens_per_s if found is not None else None
        return 1 / speed if speed else None

    def watches(self) -> Iterator[Watch]:
        """What is to run beside the requests, for ever."""
        if self.watch is not None:
            yield self.watch.watch
        if self.policy is not None:
            yield self.policy.watch

    @property
    def reasons(self) -> Sequence[str]:
        """What is not as it should be, in sentences."""
        watched = self.watch.reasons if self.watch is not None else []
        return [*watched, *(self.policy.reasons if self.policy is not None else ())]

    def close(self) -> None:
        """Drop connections."""
        if self.watch is not None:
            self.watch.looks.close()
        if self.client is not None:
            self.client.close()


class Tiers:
    """Where the settings say that tier servers are.

    Args:
        on_loss: told the name of tiers that have lost all that they were given.

    Attributes:
        shared: what all replicas load from; None where each has its own.
    """

    def __init__(
        self, settings: Settings, *, on_loss: Callable[[str], None] = lambda name: None
    ) -> None:
        told = self._told = settings.tiers
        self._on_loss = on_loss
        urls = map(_same, settings.replicas.urls)
        self._by_replica = dict(zip(urls, told.urls, strict=False))
        self.shared = None if told.are_own else self._side("", told.url)

    def of(self, name: str, url: str) -> TierSide:
        """Those of the replica at a URL."""
        if self.shared is not None:
            return self.shared
        if self._told.port is not None:
            return self._side(name, beside(url, self._told.port))
        return self._side(name, self._by_replica.get(_same(url)))

    def _side(self, name: str, url: str | None) -> TierSide:
        client = TierClient(url, timeout_s=self._told.timeout_s) if url is not None else None
        return TierSide(name, client, self._told, on_loss=self._on_loss)


def sides_of(replicas: Iterable["Replica"]) -> tuple[TierSide, ...]:
    """The tiers behind some replicas, those that they share once."""
    return tuple(dict.fromkeys(replica.tier for replica in replicas))


def beside(url: str, port: int) -> str:
    """The address of a server on an engine's host."""
    host = urlsplit(url).hostname or ""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def beside_it(replica: "Replica", replicas: Iterable["Replica"]) -> list[str]:
    """The names of others on its host: a port finds one server there for all of them."""
    client = replica.tier.client
    if client is None or not replica.tier.name:
        return []
    others = (r for r in replicas if r is not replica)
    return [r.name for r in others if r.tier.client and r.tier.client.url == client.url]


def check_tiers(settings: Settings) -> None:
    """Find what is wrong with the settings before anything is started.

    Raises:
        InvalidSettingError: two ways are named, a URL is none, or there isn't one for each replica
            of a list.
    """
    told, replicas = settings.tiers, settings.replicas
    ways = [
        name
        for name, is_set in (
            ("url", told.url is not None),
            ("urls", bool(told.urls)),
            ("port", told.port is not None),
        )
        if is_set
    ]
    if len(ways) > 1:
        raise InvalidSettingError(
            f"tiers.{ways[1]}", f"can't be set beside tiers.{ways[0]}: name one way to tier servers"
        )
    if told.urls and replicas.discovery != "static":
        raise InvalidSettingError(
            "tiers.urls",
            f"can't be set with replicas.discovery = {replicas.discovery}, which tells no order of "
            "the replicas: set tiers.port",
        )
    if told.urls and len(told.urls) != len(replicas.urls):
        raise InvalidSettingError(
            "tiers.urls",
            f"names {len(told.urls)} tier servers and replicas.urls {len(replicas.urls)} engines: "
            "one is needed for each, in the same order",
        )
    if len({_same(url) for url in told.urls}) < len(told.urls):
        raise InvalidSettingError(
            "tiers.urls", "names one twice: what all replicas share is for tiers.url"
        )
    for setting, url in (("url", told.url), *(("urls", url) for url in told.urls)):
        try:
            if url is not None:
                TierClient(url).close()
        except ValueError as error:
            raise InvalidSettingError(f"tiers.{setting}", str(error)) from error


def _same(url: str) -> str:
    """The form in which a URL is compared; one that is none is refused elsewhere."""
    try:
        return replica_url(url)
    except InvalidRequestError:
        return url.rstrip("/")
