"""The corpora that were met, each made once for every content and kept within bounded memory."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import anyio

from app.corpora.budget import Demand
from app.corpora.entry import Entry, Made, Setup
from app.corpora.fit import misfit
from app.corpora.reading import read_content
from app.corpora.rendering import build_prefix
from app.corpora.residency import PrefixWatch
from app.corpora.values import CorpusState
from app.errors import EngineNotReadyError
from app.fleet.fleet import Fleet
from app.replica import Replica
from app.replica_view import ReplicaView
from app.settings import CorporaSettings
from app.tiers import TierSide, sides_of
from prompts import PromptTokenizer, Template, TemplateLibrary
from retrieval import Collection, CollectionNotFoundError, Collections, CollectionStatus

TEMPLATE = "docqa"
"""The template of CAG prompts; a request with another one is shown the same documents, but only
what the two have in common is warm for it."""

_MEGABYTE = 2**20


class Shelf:
    """Finds, makes and forgets corpora. All calls belong to one event loop."""

    def __init__(
        self,
        settings: CorporaSettings,
        *,
        collections: Collections,
        templates: TemplateLibrary,
        fleet: Fleet,
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self.left_over_tokens = 0
        self._settings = settings
        self._collections = collections
        self._templates = templates
        self._fleet = fleet

    def view(self) -> ReplicaView | None:
        """What the engines have in common, if there are any."""
        with suppress(EngineNotReadyError):
            return self._fleet.view()
        return None

    def home(self, entry: Entry) -> Replica | None:
        """The replica that keeps a corpus; another one than before is noted in the entry."""
        home = self._fleet.home(entry.collection.id.encode(), entry.home)
        if home is not None and home.name != entry.home:
            if entry.stands is not None:
                self.leave(entry)
            entry.move(home.name)
        return home

    def tier(self, entry: Entry) -> TierSide | None:
        """The tiers of the replica that keeps a corpus; None while none does."""
        return next((r.tier for r in self._fleet.replicas if r.name == entry.home), None)

    def find(self, collection: Collection) -> Entry:
        """The entry of a collection that is used now, made if it is new."""
        entry = self.entries.get(collection.id)
        if entry is None:
            demand = Demand(half_life_s=self._settings.half_life_s)
            entry = self.entries[collection.id] = Entry(collection=collection, demand=demand)
        if collection.revision >= entry.collection.revision:
            entry.collection = collection
        entry.used_at = time.monotonic()
        return entry

    def forget(self, entry: Entry) -> None:
        """Its collection is gone, or it is not needed for long."""
        self.entries.pop(entry.collection.id, None)
        self.leave(entry)
        entry.end_wait()

    def leave(self, entry: Entry) -> None:
        """What stands for it in the engine's memory is wanted no more; counted once."""
        if entry.stands is not None and entry.serving is not None:
            self.left_over_tokens += entry.serving.tokens
        entry.stands = None

    async def reread(self, entry: Entry) -> Collection | None:
        """The collection as it is now; None if it is gone, or its time is over."""
        old = entry.collection
        get = partial(self._collections.get, old.id, tenant=old.tenant)
        try:
            found = await anyio.to_thread.run_sync(get)
        except CollectionNotFoundError:
            return None
        return None if found.status is CollectionStatus.EXPIRED else found

    async def current(self, entry: Entry, collection: Collection, view: ReplicaView) -> Made:
        """What is served now, at this revision of the collection or a later one.

        Raises:
            CollectionNotFoundError, PromptError: it can't be made.
        """
        setup = self._setup(view)
        if not entry.is_current(collection.revision, setup):
            async with entry.lock:
                if not entry.is_current(collection.revision, setup):
                    await self._renew(entry, collection, view, setup)
        overdue = entry.aside_since is not None and (
            time.monotonic() - entry.aside_since > self._settings.swap_s
        )
        if overdue and entry.aside is not None:
            self.swap(entry, entry.aside)
        assert entry.serving is not None
        return entry.serving

    def swap(self, entry: Entry, made: Made) -> None:
        """Show a prefix from now on."""
        self.left_over_tokens += entry.serve(made)

    def bound(self) -> None:
        """Drop the texts that were not used for longest, until the rest is within bounds."""
        held = [e for e in self._by_age() if e.warming is None and not e.lock.statistics().locked]
        total = sum(_memory(e) for e in self.entries.values())
        for entry in held[:-1]:
            if total <= self._settings.memory_mb * _MEGABYTE:
                return
            total -= _memory(entry)
            self.leave(entry)
            entry.serving = entry.aside = entry.aside_since = None
            entry.held, entry.kept, entry.state = False, False, CorpusState.COLD

    def _by_age(self) -> list[Entry]:
        return sorted(self.entries.values(), key=lambda entry: entry.used_at)

    async def _renew(
        self, entry: Entry, collection: Collection, view: ReplicaView, setup: Setup
    ) -> None:
        entry.building = True
        try:
            made = await anyio.to_thread.run_sync(self._make, collection, view, setup)
        finally:
            entry.building = False
        swap = self._settings.swap_s > 0
        self.left_over_tokens += entry.take(made, at=time.monotonic(), swap=swap)
        self.bound()

    def _make(self, collection: Collection, view: ReplicaView, setup: Setup) -> Made:
        content = read_content(self._collections, collection)
        prefix = build_prefix(
            content,
            self._template(),
            tokenizer=_tokenizer(view),
            model=setup.model,
            multiple=setup.multiple,
        )
        if misfit(prefix, view.info, reserve_tokens=self._settings.reserve_tokens) is None:
            for source in content.sources:
                _ = source.words  # found here, not by the event loop for the first answer
        watch = PrefixWatch(token_ids=prefix.token_ids)
        return Made(content=content, prefix=prefix, setup=setup, watch=watch)

    def _template(self) -> Template:
        return self._templates.find(TEMPLATE)

    def _setup(self, view: ReplicaView) -> Setup:
        tokenizer = _tokenizer(view)
        return Setup(
            template=self._template().reference,
            model=view.info.model_path,
            tokenizer=tokenizer.identity if tokenizer else None,
            multiple=self._chunk_tokens(view) or view.info.page_tokens,
        )

    def _chunk_tokens(self, view: ReplicaView) -> int | None:
        """Tokens in a chunk of the tiers, any replica's; None where there are none."""
        if not view.info.tiers:
            return None
        told = (side.chunk_tokens() for side in sides_of(self._fleet.replicas))
        return next((tokens for tokens in told if tokens is not None), None)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self.entries.values()))


def _tokenizer(view: ReplicaView) -> PromptTokenizer | None:
    """The tokenizer, where token ids are sent."""
    return view.tokenizer if view.parity.ok else None


def _memory(entry: Entry) -> int:
    return sum(made.memory_bytes for made in (entry.serving, entry.aside) if made is not None)
