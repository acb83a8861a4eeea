"""The fleet follows its source: what is found is added, what is gone is drained."""

import anyio
import structlog

from app.errors import InvalidRequestError
from app.fleet.addresses import NOWHERE, Listening, replica_url, require_reachable_kind
from app.fleet.discovery import Discovery
from app.fleet.fleet import Fleet
from app.fleet.orders import Orders
from app.fleet.states import ReplicaState
from app.replica import Replica


class Following:
    """Compares a source's looks with one another, never with the fleet.

    So it leaves alone what an operator added, and does not bring back what one removed, as long as
    the source goes on naming that.

    Args:
        every_s: seconds between two looks.
        orders: what operators ordered, in whichever gateway.
        own: where this gateway listens: that is no replica, whatever the source says.
    """

    def __init__(
        self,
        fleet: Fleet,
        source: Discovery,
        *,
        every_s: float,
        orders: Orders | None = None,
        own: Listening = NOWHERE,
    ) -> None:
        self._orders = orders
        self._own = own
        self._fleet = fleet
        self._source = source
        self._every_s = every_s
        self._found: frozenset[str] = frozenset()
        self._refused: dict[str, str] = {}
        self._log = structlog.get_logger()

    @property
    def problem(self) -> str | None:
        """Why the source can't be asked, or what of its answer can't be used."""
        return self._source.problem or next(iter(self._refused.values()), None)

    async def look(self) -> None:
        """Look once."""
        found = await self._source.look()
        self._refused = {url: why for url, why in self._refused.items() if url in found}
        # In order, so that what depends on it is the same in all gateways.
        for url in sorted(found - self._found):
            await self._add(url)
        for url in sorted(self._found - found):
            self._drain(url)
        if self._orders is not None and self._found - found:
            await self._orders.forget(self._found - found)
        self._found = found
        self._fleet.source_problem = self.problem

    @property
    def found(self) -> frozenset[str]:
        """The URLs that the source named last."""
        return self._found

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await anyio.sleep(self._every_s)
            await self.look()

    async def aclose(self) -> None:
        """Drop the source's connections."""
        await self._source.aclose()

    async def _add(self, url: str) -> None:
        if self._orders is not None and self._orders.keeps_out(url):
            return
        replica = self._replica_at(url)
        if replica is not None:
            if replica.state is ReplicaState.DRAINING:  # it is back before it was gone
                self._fleet.uncordon(replica.name)
            return
        try:
            taken = replica_url(url)
            await require_reachable_kind(taken, own=self._own)
            await self._fleet.add(taken)
        except InvalidRequestError as error:
            self._refused[url] = f"{url} was found and is no replica: {error}"
            self._log.warning("replica_refused", url=url, problem=str(error))
            return
        self._log.info("replica_found", url=url)

    def _drain(self, url: str) -> None:
        if self._orders is not None and self._orders.keeps_in(url):
            return
        replica = self._replica_at(url)
        if replica is not None:
            self._log.info("replica_gone", replica=replica.name, url=url)
            self._fleet.drain(replica.name)

    def _replica_at(self, url: str) -> Replica | None:
        return next((r for r in self._fleet.replicas if r.client.url == url), None)
