"""All replicas behind the gateway: they serve one model, and any of them may answer a request."""

import time
from collections.abc import Callable

import anyio
import structlog
from anyio.abc import TaskGroup

from app.background import kept_going
from app.errors import EngineNotReadyError, InvalidRequestError, ReplicaNotFoundError
from app.fleet.agreement import Agreement
from app.fleet.choosing import Choice, Chooser, Look
from app.fleet.counting import counted, median_speed
from app.fleet.openings import Openings
from app.fleet.states import ReplicaState
from app.fleet.warm_up import warm_up
from app.prepared import Prepared
from app.replica import Replica
from app.replica_view import ReplicaView
from app.routing.hashing import rank
from cache.engine_metrics import EngineDelta
from cache.prefill_speed import PrefillSpeed
from cache.prefix_index import PrefixIndex

MakeReplica = Callable[[str, str, Callable[[Replica], PrefixIndex | None]], Replica]
"""(name, URL, where its KV events go) → a replica that nobody watches yet."""

_DRAIN_LOOK_S = 0.1


class Fleet:
    """The replicas, by name. All calls belong to one event loop.

    The first that is met says what all serve: another model, page size or tokenizer is left out,
    until none of the former is there any more.

    Attributes:
        source_problem: why where the replicas come from can't be asked, or be believed.

    Args:
        make: makes a replica.
        index_of: the prefix index of a model; None where nothing is counted.
        openings: what a replica computes before its first request.
        on_restart: is told the name of a replica without events that began anew.
        on_remove: is told the name of one that is none any more.
    """

    def __init__(
        self,
        make: MakeReplica,
        chooser: Chooser,
        *,
        index_of: Callable[[ReplicaView], PrefixIndex | None],
        openings: Openings | None = None,
        on_restart: Callable[[str], None] | None = None,
        on_remove: Callable[[str], None] | None = None,
    ) -> None:
        self._make = make
        self._on_restart = on_restart
        self._on_remove = on_remove
        self._chooser = chooser
        self._index_of = index_of
        self._openings = openings or Openings()
        self._replicas: dict[str, Replica] = {}
        self._all: tuple[Replica, ...] = ()
        self._agreement = Agreement()
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._tasks: TaskGroup | None = None
        # What replicas counted that are gone.
        self._counted: tuple[EngineDelta, ...] = ()
        self.failovers = 0
        self.source_problem: str | None = None
        self._log = structlog.get_logger()

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """All of them, in the order in which they came."""
        return self._all

    @property
    def openings(self) -> Openings:
        """What the latest prompts began with."""
        return self._openings

    def get(self, name: str) -> Replica:
        """Raises ReplicaNotFoundError: there is none of that name."""
        found = self._replicas.get(name)
        if found is None:
            raise ReplicaNotFoundError(name, tuple(self._replicas))
        return found

    def view(self) -> ReplicaView:
        """What prompts are made for: the same for all, the window and the pool of the smallest.

        Raises:
            EngineLeaksError: the only ones there are don't keep tenants apart.
            EngineNotReadyError: none has been met, or all are away.
        """
        if self._agreement.common is not None:
            return self._agreement.common
        for replica in self._all:
            replica.view()  # a lone one says best why there is none
        raise EngineNotReadyError(", ".join(r.client.url for r in self._all) or "(none is known)")

    def any(self) -> Replica:
        """One that answers, for what all can do, such as tokenizing.

        Raises EngineNotReadyError.
        """
        ready = self.candidates()
        if ready:
            return ready[0]
        self.view()
        return next(replica for replica in self._all if replica.fits)

    @property
    def problem(self) -> str | None:
        """Why there is no view."""
        if len(self._all) == 1:
            return self._all[0].problem or self.source_problem
        problems = [f"{r.name}: {r.problem}" for r in self._all if r.problem]
        problems += [self.source_problem] if self.source_problem else []
        return "; ".join(problems) or None

    def candidates(self) -> list[Replica]:
        """Those that may be sent a request now.

        Where all that are ready failed lately, each of them: one that fails is no worse than none.
        """
        now = time.monotonic()
        ready: list[Replica] = []
        able: list[Replica] = []
        for replica in self._all:
            if replica.is_ready:
                ready.append(replica)
                if replica.breaker.allows(now):
                    able.append(replica)
        return able or ready

    def route(
        self, prepared: Prepared, look: Look | None, *, deadline_s: float | None = None
    ) -> Choice:
        """Where a request goes.

        Raises:
            EngineNotReadyError: no replica takes requests now.
        """
        candidates = self.candidates()
        if prepared.adapter is not None:
            candidates = [r for r in candidates if prepared.adapter in r.view().info.adapters]
        if not candidates:
            self.view()
            raise EngineNotReadyError(", ".join(r.client.url for r in self._all))
        return self._chooser.choose(candidates, prepared, look, deadline_s=deadline_s)

    def home(self, key: bytes, current: str | None) -> Replica | None:
        """The replica where something lives that belongs in one place; None: there is none.

        It stays where it is while that is ready, or nobody else is.
        """
        here = self._replicas.get(current or "")
        if here is not None and here.state is ReplicaState.READY:
            return here
        ready = {r.name: r for r in self._all if r.state is ReplicaState.READY}
        if ready:
            return ready[max(ready, key=lambda name: rank(key, name))]
        return here if here is not None else next(iter(self._all), None)

    @property
    def speed(self) -> PrefillSpeed | None:
        """The median of the replicas' prefill speeds; None until one has computed enough."""
        return median_speed(self._all)

    async def counted(self) -> tuple[EngineDelta, ...]:
        """What the engines have counted until now, the longest window first; none if one can't say.

        Of several replicas only the longest: their shorter ones begin at different moments.
        """
        return await counted(self._all, self._counted)

    async def add(self, url: str, *, name: str | None = None) -> Replica:
        """Look after one more; it gets requests once it was met.

        Raises:
            InvalidRequestError: there is one with that URL or name.
            ValueError: not an http or https URL.
        """
        name = name or url.partition("://")[2].rstrip("/")
        if name in self._replicas:
            raise InvalidRequestError(f"there is a replica {name!r} already", param="name")
        if any(r.client.url == url.rstrip("/") for r in self._all):
            raise InvalidRequestError(f"there is a replica at {url} already", param="url")
        replica = self._make(name, url, self._index_for)
        self._replicas[name] = replica
        self._all = tuple(self._replicas.values())
        if self._tasks is not None:
            self._tasks.start_soon(self._look_after, replica)
        return replica

    def cordon(self, name: str) -> None:
        """Send it no new requests; its cache and those under way stay.

        Raises ReplicaNotFoundError.
        """
        self.get(name).cordoned = True

    def uncordon(self, name: str) -> None:
        """Send it requests again, also if it was being drained.

        Raises ReplicaNotFoundError.
        """
        replica = self.get(name)
        replica.cordoned = replica.draining = False

    def drain(self, name: str) -> None:
        """Send it no new requests, and forget it when those under way have ended.

        Raises ReplicaNotFoundError.
        """
        self.get(name).draining = True

    def remove(self, name: str) -> None:
        """Forget it now; requests under way there go on.

        Raises ReplicaNotFoundError.
        """
        replica = self.get(name)
        del self._replicas[name]
        self._all = tuple(self._replicas.values())
        self._counted += replica.counters.windows[:1]
        replica.removed = True
        if self._on_remove is not None:
            self._on_remove(name)
        if (index := self._index_for(replica)) is not None:
            index.forget_replica(name)
        self._agreement.forget(name)
        self._agreement.settle(self._all)
        scope = self._scopes.pop(name, None)
        if scope is None:
            replica.close()
        else:
            scope.cancel()
        self._log.info("replica_removed", replica=name)

    async def open(self) -> None:
        """Meet those that were added, as far as they answer."""
        async with anyio.create_task_group() as tasks:
            for replica in self._all:
                tasks.start_soon(replica.refresh)
        for replica in self._all:
            await self._settle(replica)

    async def watch(self) -> None:
        """Look after all, for ever."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                for replica in self._all:
                    tasks.start_soon(self._look_after, replica)
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def close(self) -> None:
        """Drop all connections."""
        for replica in self._all:
            replica.close()

    async def _look_after(self, replica: Replica) -> None:
        """Until it is removed."""

        async def keep_true() -> None:
            await self._watch(replica)

        with anyio.CancelScope() as scope:
            self._scopes[replica.name] = scope
            async with anyio.create_task_group() as tasks:
                for watch in (*replica.watches(), keep_true):
                    tasks.start_soon(kept_going, watch)
        if self._replicas.get(replica.name) is not replica:
            replica.close()

    async def _watch(self, replica: Replica) -> None:
        while True:
            await replica.refresh()
            await self._settle(replica)
            if replica.draining and not replica.meter.in_flight:
                self.remove(replica.name)
            await replica.pause()

    async def _settle(self, replica: Replica) -> None:
        """Take note of what became of it; a new start is warmed up before it gets requests."""
        self._agreement.settle(self._all)
        if replica.is_warm or not replica.fits:
            return
        # No event will say that it began anew. Of its first meeting nothing is known here but what
        # other gateways told of it.
        again = replica.meetings > 1 and replica.address is None
        if again and (index := self._index_for(replica)) is not None:
            index.restarted(replica.name, at=time.monotonic())
            if self._on_restart is not None:
                self._on_restart(replica.name)
        others = any(r.state is ReplicaState.READY for r in self._all)
        if others and len(self._openings):
            await warm_up(replica.client, self._openings)
        replica.is_warm = replica.seen is not None
        self._log.info("replica_ready", replica=replica.name)

    def _index_for(self, replica: Replica) -> PrefixIndex | None:
        """Where a replica's KV events go; only what serves the common model is counted."""
        common = self._agreement.common
        if replica.name not in self._agreement or common is None:
            return None
        return self._index_of(common)
