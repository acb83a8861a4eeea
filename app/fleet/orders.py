"""An operator says it to one gateway, and all do it, those that are started later too."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import anyio
import sqlalchemy as sa
import structlog

from app.callers import Caller
from app.errors import InvalidRequestError
from app.fleet.addresses import NOWHERE, Listening, problem_of_address
from app.fleet.fleet import Fleet
from app.fleet.order_book import Order, OrderBook, Standing
from app.replica import Replica

_LOOK_S = 1.0


class Orders:
    """Carries out what the order book says. Orders are about URLs; names may differ by gateway.

    Args:
        own: where this gateway listens: another one may have taken that for a replica.

    Attributes:
        problem: why orders given elsewhere may not be known here.
    """

    def __init__(self, fleet: Fleet, book: OrderBook, *, own: Listening = NOWHERE) -> None:
        self._fleet = fleet
        self._own = own
        self._book = book
        self._standing: Mapping[str, Order] = {}
        self._lock = anyio.Lock()
        self._log = structlog.get_logger()
        self.problem: str | None = None

    def keeps_out(self, url: str) -> bool:
        """Whether a replica was sent away, so that no source brings it back."""
        order = self._standing.get(url)
        return order is not None and order.standing.is_out

    def keeps_in(self, url: str) -> bool:
        """Whether a replica is there by order, so that no source takes it away."""
        order = self._standing.get(url)
        return order is not None and order.added and not order.standing.is_out

    async def add(self, url: str, *, name: str | None, by: Caller) -> Replica:
        """Look after one more, in all gateways.

        Raises:
            InvalidRequestError: there is one with that URL or name.
        """
        async with self._lock:
            replica = await self._fleet.add(url, name=name)
            try:
                await self._note(replica, Standing.IN_USE, by=by, action="replica.add", adds=True)
            except BaseException:
                self._fleet.remove(replica.name)
                raise
        return replica

    async def cordon(self, name: str, *, by: Caller) -> Replica:
        """No new requests; raises ReplicaNotFoundError."""
        return await self._give(name, Standing.CORDONED, self._fleet.cordon, by=by, verb="cordon")

    async def uncordon(self, name: str, *, by: Caller) -> Replica:
        """Requests again; raises ReplicaNotFoundError."""
        return await self._give(name, Standing.IN_USE, self._fleet.uncordon, by=by, verb="uncordon")

    async def drain(self, name: str, *, by: Caller) -> Replica:
        """No new requests, and gone when those under way ended; raises ReplicaNotFoundError."""
        return await self._give(name, Standing.DRAINED, self._fleet.drain, by=by, verb="drain")

    async def remove(self, name: str, *, by: Caller) -> Replica:
        """Gone now; raises ReplicaNotFoundError."""
        return await self._give(name, Standing.REMOVED, self._fleet.remove, by=by, verb="remove")

    async def look(self) -> None:
        """Carry out what was ordered since the last time, by whichever gateway."""
        async with self._lock:
            standing = await anyio.to_thread.run_sync(self._book.load)
            before, self._standing = self._standing, standing
            for url in sorted(standing):
                if standing[url] != before.get(url):
                    await self._carry_out(standing[url], before.get(url))

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await anyio.sleep(_LOOK_S)
            try:
                await self.look()
            except sa.exc.SQLAlchemyError as error:
                if self.problem is None:
                    self._log.warning("replica_orders_unreadable", problem=type(error).__name__)
                self.problem = (
                    "what operators order of replicas can't be read from the database "
                    f"({type(error).__name__}): orders given to other gateways aren't known here"
                )
            else:
                self.problem = None

    async def forget(self, urls: Iterable[str]) -> None:
        """No source names these any more: what comes to their address is another engine."""
        gone = {url for url in urls if (o := self._standing.get(url)) is not None and not o.added}
        if not gone:
            return
        async with self._lock:
            await anyio.to_thread.run_sync(self._book.forget, gone)
            self._standing = {url: o for url, o in self._standing.items() if url not in gone}

    async def forget_all_but(self, urls: frozenset[str]) -> None:
        """The same at the start, when the source has told all that there are."""
        await self.forget(self._standing.keys() - urls)

    async def _give(
        self, name: str, standing: Standing, do: Callable[[str], None], *, by: Caller, verb: str
    ) -> Replica:
        async with self._lock:
            replica = self._fleet.get(name)
            await self._note(replica, standing, by=by, action=f"replica.{verb}", adds=False)
            if self._find(replica.client.url) is replica:  # it may have been drained meanwhile
                do(name)
        return replica

    async def _note(
        self, replica: Replica, standing: Standing, *, by: Caller, action: str, adds: bool
    ) -> None:
        """Written down before it is done, and not done again at the next look."""
        give = partial(
            self._book.give,
            replica.client.url,
            replica.name,
            standing,
            by=by,
            action=action,
            adds=adds,
        )
        order = await anyio.to_thread.run_sync(give)
        self._standing = {**self._standing, order.url: order}

    async def _carry_out(self, order: Order, before: Order | None) -> None:
        replica = self._find(order.url)
        was_out = before is not None and before.standing.is_out
        if replica is None and not order.standing.is_out and (order.added or was_out):
            replica = await self._add(order)
        if replica is None:
            return
        match order.standing:
            case Standing.IN_USE:
                self._fleet.uncordon(replica.name)
            case Standing.CORDONED:
                self._fleet.cordon(replica.name)
            case Standing.DRAINED:
                self._fleet.drain(replica.name)
            case Standing.REMOVED:
                self._fleet.remove(replica.name)
        self._log.info("replica_order", replica=replica.name, standing=order.standing.value)

    async def _add(self, order: Order) -> Replica | None:
        """Under its own name, or by host and port where another has that here."""
        taken = any(replica.name == order.name for replica in self._fleet.replicas)
        try:
            problem = await problem_of_address(order.url, own=self._own)
            if problem is not None:
                raise InvalidRequestError(problem)
            return await self._fleet.add(order.url, name=None if taken else order.name)
        except (InvalidRequestError, ValueError) as error:
            self._log.warning("replica_refused", url=order.url, problem=str(error))
            return None

    def _find(self, url: str) -> Replica | None:
        return next((r for r in self._fleet.replicas if r.client.url == url), None)
