"""Corpora: whole collections as prefixes, for the requests that are shown them."""

import time
from collections import Counter
from collections.abc import Mapping

import anyio
import sqlalchemy as sa
import structlog

from app.accounting import RequestAccounting
from app.corpora.budget import Demand
from app.corpora.entry import Entry, Made
from app.corpora.fit import misfit
from app.corpora.keeper import Keeper
from app.corpora.memory import CorpusMemory
from app.corpora.shelf import Shelf
from app.corpora.standing import keeps_by_priority, knows_priorities
from app.corpora.values import CorpusPrefix, CorpusState, CorpusStatus
from app.corpora.warmer import Warmer, WarmTotals
from app.errors import CorpusRestrictedError, CorpusTooLargeError
from app.fleet.fleet import Fleet
from app.replica_view import ReplicaView
from app.salts import Salts
from app.settings import CorporaSettings
from prompts import TemplateLibrary
from retrieval import Collection, Collections


class Corpora:
    """Every collection that is used as a whole. All calls belong to one event loop."""

    def __init__(
        self,
        settings: CorporaSettings,
        *,
        collections: Collections,
        templates: TemplateLibrary,
        fleet: Fleet,
        accounting: RequestAccounting,
        salts: Salts,
        database: sa.Engine,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._shelf = Shelf(
            settings,
            collections=collections,
            templates=templates,
            fleet=fleet,
        )
        self._warmer = Warmer(settings, self._shelf, accounting=accounting, salts=salts)
        self._keeper = Keeper(settings, self._shelf, self._warmer, accounting=accounting)
        self._memory = CorpusMemory(self._shelf, collections, database)
        self._log = structlog.get_logger()

    @property
    def totals(self) -> WarmTotals:
        """What all warmings did since the start; requests are counted elsewhere."""
        return self._warmer.totals

    async def prefix(self, collection: Collection) -> CorpusPrefix:
        """What a CAG prompt begins with; made once for each content, and counted as demand.

        Raises:
            CorpusTooLargeError: it doesn't fit the window or the pool.
            CorpusRestrictedError: not everybody may see all of it.
            EngineNotReadyError: there is no engine to count tokens for.
            CollectionNotFoundError: it was deleted meanwhile.
            PromptError: a document can't be rendered.
        """
        view = self._fleet.view()
        entry = self._shelf.find(collection)
        made = await self._shelf.current(entry, collection, view)
        self._check(made, collection, view)
        entry.demand = entry.demand.asked(time.time())
        if entry.aside is not None:
            self._keeper.wake()
        return made.prefix

    def left(self, collection_id: str) -> None:
        """Its questions are answered in another mode from now on: its claim to a place ends.

        Otherwise it would be warmed after each change for as long as its demand is remembered.
        """
        entry = self._shelf.entries.get(collection_id)
        if entry is not None:
            entry.demand = Demand(half_life_s=self._settings.half_life_s)

    def begun(self, collection_id: str | None) -> None:
        """A request was sent to the engine, shown the corpus of this collection or of none."""
        entry = self._shelf.entries.get(collection_id or "")
        if entry is not None:
            entry.running += 1

    def ended(self, collection_id: str | None) -> None:
        """It has ended, however it did."""
        entry = self._shelf.entries.get(collection_id or "")
        if entry is not None and entry.running:
            entry.running -= 1

    def status(self, collection_id: str) -> CorpusStatus | None:
        """What is known now, without asking anybody; None of a collection never met.

        The engine's events count up to this moment: what a flush took isn't held any more.
        """
        entry = self._shelf.entries.get(collection_id)
        if entry is None:
            return None
        self._keeper.place(entry)
        return self._status(entry)

    def home(self, collection_id: str) -> str | None:
        """The replica that keeps a corpus; None of a collection never met."""
        entry = self._shelf.entries.get(collection_id)
        return entry.home if entry is not None else None

    def statuses(self) -> list[CorpusStatus]:
        """Those of all corpora that were met."""
        return [self._status(entry) for entry in self._shelf]

    async def status_of(self, collection: Collection) -> CorpusStatus:
        """The same, its tokens counted if they never were and there is an engine.

        Raises:
            CollectionNotFoundError, PromptError: it can't be read.
        """
        entry = self._shelf.find(collection)
        view = self._shelf.view()
        if view is not None:
            await self._shelf.current(entry, collection, view)
        return self._status(entry)

    async def begin_warm(self, collection: Collection) -> None:
        """See that it is warmed soon, whether or not it would have been; returns at once.

        Raises:
            CorpusTooLargeError, CorpusRestrictedError, EngineNotReadyError, PromptError,
            CollectionNotFoundError: it can't be.
        """
        view = self._fleet.view()
        entry = self._shelf.find(collection)
        made = await self._shelf.current(entry, collection, view)
        self._check(made, collection, view)
        entry.demand = entry.demand.asked(time.time())
        entry.asked = True
        self._keeper.wake()

    async def warm(self, collection: Collection, *, why: str) -> CorpusStatus:
        """Warm it, and wait until that has ended, however it did; `why` is for the log.

        Raises:
            as `begin_warm`.
        """
        self._log.info("corpus_asked_for", collection=collection.id, why=why)
        await self.begin_warm(collection)
        entry = self._shelf.find(collection)
        if entry.asked:
            await entry.ended.wait()
        return self._status(entry)

    def request_priority(self) -> int | None:
        """The `priority` of users' requests in the engine; corpora stand a little above it.

        None where the engine knows no priorities.
        """
        view = self._shelf.view()
        if view is None or not knows_priorities(view.info.settings):
            return None
        return self._warmer.standing.base

    async def watch(self) -> None:
        """Keep what should be resident so, for ever."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._memory.remember()
                await self._memory.meet_pinned()
                await self._keeper.look(tasks)
                await self._memory.write_down()
                await self._keeper.pause()

    @property
    def reasons(self) -> list[str]:
        """What is not as it should be, in sentences, for `/readyz`."""
        pinned = [e for e in self._shelf if e.collection.mode == "cag"]
        unusable = [(e.collection.name, self._status(e)) for e in pinned]
        reasons = [
            f"collection {name!r} is pinned to mode cag and can't be used so: {status.problem}"
            for name, status in unusable
            if status.state is CorpusState.TOO_LARGE
        ]
        view = self._shelf.view()
        kept = any(entry.kept for entry in self._shelf)
        if kept and view is not None and not keeps_by_priority(view.info.settings):
            reasons.append(
                "the engine drops whole collections like any prompt: start it with "
                "--enable-priority-scheduling and --radix-eviction-policy priority"
            )
        return reasons

    def counts(self) -> Mapping[str, int]:
        """How many corpora are in each state."""
        return Counter(status.state.value for status in self.statuses())

    def levels(self) -> Mapping[str, float]:
        """For `/metrics`."""
        statuses, totals = self.statuses(), self.totals
        resident = [s for s in statuses if s.state is CorpusState.RESIDENT]
        return {
            "corpora": len(statuses),
            "corpora_resident": len(resident),
            "corpus_tokens": sum(s.tokens or 0 for s in statuses),
            "corpus_resident_tokens": sum(s.resident_tokens or 0 for s in statuses),
            "corpus_warmings": totals.warmings,
            "corpus_warmings_failed": totals.failed,
            "corpus_warm_computed_tokens": totals.computed_tokens,
            "corpus_warm_loaded_tokens": totals.loaded_tokens,
            "corpus_warm_seconds": totals.seconds,
        }

    def _check(self, made: Made, collection: Collection, view: ReplicaView) -> None:
        if made.content.restricted:
            raise CorpusRestrictedError(collection.name)
        info, reserve = view.info, self._settings.reserve_tokens
        if made.prefix.tokens and misfit(made.prefix, info, reserve_tokens=reserve):
            limit = min(info.context_tokens, info.pool_tokens or info.context_tokens)
            raise CorpusTooLargeError(collection.name, made.prefix.tokens, limit)

    def _status(self, entry: Entry) -> CorpusStatus:
        view, made = self._shelf.view(), entry.serving
        state, problem = entry.state, entry.problem
        if made is not None and made.content.restricted:
            state = CorpusState.COLD
            problem = str(CorpusRestrictedError(entry.collection.name))
        elif made is not None and view is not None:
            reserve = self._settings.reserve_tokens
            too_large = misfit(made.prefix, view.info, reserve_tokens=reserve)
            if too_large is not None:
                state, problem = CorpusState.TOO_LARGE, too_large
        progress = None
        if entry.warming is not None:
            state = CorpusState.WARMING
            progress = entry.warming.done_tokens / max(1, len(entry.warming.ids))
        elif entry.building and made is None:
            state = CorpusState.BUILDING
        return CorpusStatus(
            collection_id=entry.collection.id,
            state=state,
            address=made.prefix.address if made else None,
            tokens=made.prefix.tokens if made else None,
            document_tokens=made.prefix.document_tokens if made else None,
            resident_tokens=entry.resident_tokens,
            tiered_tokens=entry.tiered_tokens,
            window_tokens=view.info.context_tokens if view else None,
            pool_tokens=view.info.pool_tokens if view else None,
            revision=made.content.revision if made else None,
            progress=progress,
            verified_at=entry.verified_at,
            warm_s=entry.warm_s,
            warm_loaded_tokens=entry.warm_loaded_tokens,
            wanted=entry.asked,
            problem=problem,
        )
