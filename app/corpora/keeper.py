"""Keeps corpora resident: looks where their KV is, decides which have a place, and warms those."""

import time
from collections.abc import Iterable

import anyio
import sqlalchemy as sa
from anyio.abc import TaskGroup

from app.accounting import RequestAccounting
from app.corpora.budget import Candidate, choose_kept
from app.corpora.entry import Entry, Made
from app.corpora.fit import misfit
from app.corpora.shelf import Shelf
from app.corpora.values import CorpusState
from app.corpora.warmer import Warmer
from app.engine import EngineInfo
from app.replica import Replica
from app.replica_view import ReplicaView
from app.settings import CorporaSettings
from prompts import PromptError
from retrieval import RetrievalError

# Below this level of demand a corpus isn't kept any more.
_LEAST_DEMAND = 0.1
# Events come a moment after the answer that they are about.
_EVENTS_LAG_S = 2.0
_SETTLING_S = 60.0
# With no pool size told, nothing is known that could be short.
_NO_LIMIT = 2**62
_AT_REST = (CorpusState.STALE, CorpusState.COLD)
_UNUSED_S = 3600.0
_NO_ROOM = (
    "others take the room that corpora have in the engine's memory: a request for it loads from "
    "the tiers what they have, and computes the rest"
)


class Keeper:
    """Watches and warms; on each replica one corpus is warmed at a time."""

    def __init__(
        self,
        settings: CorporaSettings,
        shelf: Shelf,
        warmer: Warmer,
        *,
        accounting: RequestAccounting,
    ) -> None:
        self._settings = settings
        self._shelf = shelf
        self._warmer = warmer
        self._accounting = accounting
        # By replica: what it said when it was met last, and when that was.
        self._met: dict[str, tuple[EngineInfo, float]] = {}
        self._at_work: dict[str, Entry] = {}
        self._wake = anyio.Event()

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    async def pause(self) -> None:
        """Until the next look is due."""
        with anyio.move_on_after(self._settings.watch_s):
            await self._wake.wait()
        self._wake = anyio.Event()

    async def look(self, tasks: TaskGroup) -> None:
        """Look once, and begin what is to be done."""
        view = self._shelf.view()
        if view is None:
            _engines_away(self._shelf)
            return
        homes = self._homes()
        for name, (home, entries) in homes.items():
            seen = home.seen
            if seen is None:
                _engines_away(entries)
            elif name not in self._met or self._met[name][0] is not seen.info:
                self._engine_met(name, seen.info, entries)
        for entry in self._shelf:
            await self._refresh(entry, view)
        for entry in self._shelf:
            self._place(entry, view)
        for home, _ in self._homes().values():
            if home.seen is not None:
                self._keep(home, home.seen, view, tasks)
        self._let_go(view)

    def _keep(self, home: Replica, seen: ReplicaView, view: ReplicaView, tasks: TaskGroup) -> None:
        """Which of a replica's corpora have a place there, and which is warmed now."""
        entries = [entry for entry in self._shelf if entry.home == home.name]
        self._choose(entries, seen.info.pool_tokens)
        if home.name not in self._at_work and (due := self._next(entries, view)) is not None:
            self._at_work[home.name] = due
            tasks.start_soon(self._work, due, view, home)

    async def _work(self, entry: Entry, view: ReplicaView, home: Replica) -> None:
        try:
            await self._warmer.warm(entry, view, home)
        finally:
            del self._at_work[home.name]
            self.wake()

    def _homes(self) -> dict[str, tuple[Replica, list[Entry]]]:
        """By name: the replicas that keep any corpus, and which."""
        homes: dict[str, tuple[Replica, list[Entry]]] = {}
        for entry in self._shelf:
            home = self._shelf.home(entry)
            if home is not None:
                homes.setdefault(home.name, (home, []))[1].append(entry)
        return homes

    def _engine_met(self, name: str, info: EngineInfo, entries: list[Entry]) -> None:
        """It was started anew, or is met for the first time: what it holds is to be found out."""
        is_first = name not in self._met
        self._met[name] = (info, time.monotonic())
        self._warmer.standing = self._warmer.standing.emptied()
        for entry in entries:
            entry.proved_at = None
            entry.unproven = not is_first
            if entry.held:
                entry.state, entry.held = CorpusState.STALE, False
                entry.problem = "the engine was started anew"

    async def _refresh(self, entry: Entry, view: ReplicaView) -> None:
        """Notice what became of the collection."""
        try:
            collection = await self._shelf.reread(entry)
            if collection is None:
                self._shelf.forget(entry)
                return
            entry.collection = collection
            wanted = self._is_wanted(entry)
            if not wanted and not entry.held and self._is_unused(entry):
                self._shelf.forget(entry)
            elif wanted or entry.held:  # of the others, the next use makes what is new
                await self._shelf.current(entry, collection, view)
        except (RetrievalError, PromptError, sa.exc.SQLAlchemyError) as error:
            entry.problem = f"it can't be read: {error}"

    def place(self, entry: Entry) -> None:
        """Notice where a corpus' KV is now."""
        view, home = self._shelf.view(), self._shelf.home(entry)
        if view is None or home is None or home.seen is None:
            return
        met = self._met.get(home.name)
        if met is not None and met[0] is home.seen.info:
            self._place(entry, view)

    def _place(self, entry: Entry, view: ReplicaView) -> None:
        """Where its KV is, by the engine's events, or by what was proved lately."""
        made = entry.serving
        if made is None or not made.tokens or entry.home not in self._met:
            return
        if made.content.restricted:
            entry.state, entry.held = CorpusState.COLD, False
            return
        too_large = misfit(made.prefix, view.info, reserve_tokens=self._settings.reserve_tokens)
        if too_large is not None:
            entry.state, entry.problem, entry.held = CorpusState.TOO_LARGE, too_large, False
            return
        if entry.state is CorpusState.TOO_LARGE:
            entry.state, entry.problem = CorpusState.COLD, None
        now, salt = time.monotonic(), self._warmer.salt(entry)
        tier = self._shelf.tier(entry)
        where = made.watch.look(
            self._accounting.index, salt=salt, replica=entry.home, tier=tier.name if tier else ""
        )
        chunk = tier.chunk_tokens() if tier is not None and view.info.tiers else None
        entry.tiered_tokens = min(where.tiered_tokens, made.tokens) if chunk else None
        if entry.salt is not None and entry.salt != salt:
            entry.lost(at=now, problem="the tenant's KV was deleted")
            entry.salt = None
        if entry.proved_at is not None and now - entry.proved_at < _EVENTS_LAG_S:
            return
        if entry.unproven and (
            where.cleared_at is None or where.cleared_at < self._met[entry.home][1]
        ):
            # Events of before it was away still count: only an answer can tell.
            entry.resident_tokens = None
            return
        if where.resident_tokens is None:
            self._place_blindly(entry, now)
            return
        entry.unproven = False
        entry.resident_tokens = min(where.resident_tokens, made.tokens)
        if entry.resident_tokens >= made.tokens:
            entry.found_resident(at=now, salt=salt)
        elif entry.held:
            entry.lost(at=now, problem="the engine dropped it to make room, or was flushed")

    def _place_blindly(self, entry: Entry, now: float) -> None:
        """Without events only a request can tell: a proof is good for a while."""
        entry.resident_tokens = entry.serving.tokens if entry.held and entry.serving else None
        old = entry.proved_at is None or now - entry.proved_at > self._settings.probe_s
        if entry.held and old:
            entry.state, entry.held = CorpusState.STALE, False
            entry.problem = "it is to be probed, since the engine sends no KV events"

    def _choose(self, entries: list[Entry], pool: int | None) -> None:
        """Which of the corpora of one replica have a place in its pool of so many tokens."""
        now = time.monotonic()
        able = [e for e in entries if self._may_be_kept(e)]
        kept = choose_kept(
            [_candidate(entry, now) for entry in able],
            budget_tokens=int(pool * self._settings.pool_share) if pool else _NO_LIMIT,
        )
        for entry in entries:
            keep = entry.collection.id in kept
            if entry.kept and not keep:
                self._shelf.leave(entry)
            entry.kept = keep
            if not keep and entry.state in _AT_REST and not entry.asked:
                entry.state = CorpusState.COLD
                entry.problem = _NO_ROOM if entry in able else None

    def _let_go(self, view: ReplicaView) -> None:
        """Lift the base when too much stands above it that nobody wants."""
        self._warmer.standing = self._warmer.standing.left(
            self._shelf.left_over_tokens, pool_tokens=view.info.pool_tokens, at=time.time()
        )
        self._shelf.left_over_tokens = 0

    def _may_be_kept(self, entry: Entry) -> bool:
        made = entry.serving
        fits = made is not None and entry.state is not CorpusState.TOO_LARGE and _is_usable(made)
        return fits and self._is_wanted(entry)

    def _is_wanted(self, entry: Entry) -> bool:
        lately = entry.demand.level(time.time()) >= _LEAST_DEMAND
        return lately or entry.asked or entry.collection.mode == "cag"

    def _is_unused(self, entry: Entry) -> bool:
        return time.monotonic() - entry.used_at > _UNUSED_S

    def _next(self, entries: list[Entry], view: ReplicaView) -> Entry | None:
        """The first that is to be warmed now."""
        now = time.monotonic()
        due = [entry for entry in entries if self._is_due(entry, view, now)]
        return min(due, key=lambda e: (not e.asked, -e.collection.priority), default=None)

    def _is_due(self, entry: Entry, view: ReplicaView, now: float) -> bool:
        made, asked = entry.serving, entry.asked
        usable = made is not None and _is_usable(made)
        falls = entry.kept and entry.stands != self._warmer.priority(entry, view)
        at_rest = entry.held and entry.aside is None and not falls
        if not usable or entry.state is CorpusState.TOO_LARGE or at_rest:
            if asked:
                entry.end_wait()
            return False
        if entry.running and not entry.held and entry.aside is None and not asked:
            return False  # a request is computing it: that is its warming
        swaps = entry.aside is not None and self._is_wanted(entry)
        return asked or ((entry.kept or swaps) and entry.backoff.allows(now))


def _engines_away(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.state in (CorpusState.RESIDENT, CorpusState.WARMING):
            entry.state, entry.held = CorpusState.STALE, False
            entry.problem = "the engine is away"
        entry.resident_tokens = None


def _is_usable(made: Made) -> bool:
    """Whether there is anything to warm that everybody may see."""
    content = made.content
    return made.tokens > 0 and bool(content.documents) and not content.restricted


def _candidate(entry: Entry, now: float) -> Candidate:
    assert entry.serving is not None
    warmed_at = entry.backoff.warmed_at
    return Candidate(
        name=entry.collection.id,
        tokens=max(made.tokens for made in (entry.serving, entry.aside) if made is not None),
        priority=entry.collection.priority,
        demand=entry.demand.level(time.time()),
        kept=entry.kept,
        settling=entry.kept and warmed_at is not None and now - warmed_at < _SETTLING_S,
    )
