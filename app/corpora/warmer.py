"""Warms one corpus: its KV is computed or loaded, proven to be held, and only then served."""

import time
from dataclasses import dataclass

import structlog

from app.accounting import RequestAccounting
from app.corpora.entry import Entry, Made
from app.corpora.rendering import unpacked_ids
from app.corpora.shelf import Shelf
from app.corpora.standing import Standing, first_standing, knows_priorities
from app.corpora.warming import Warmed, Warming
from app.errors import EngineError
from app.replica import Replica
from app.replica_view import ReplicaView
from app.salts import Salts
from app.settings import CorporaSettings


@dataclass(slots=True)
class WarmTotals:
    """What all warmings did since the start; apart from what requests did."""

    warmings: int = 0
    failed: int = 0
    tokens: int = 0
    computed_tokens: int = 0
    loaded_tokens: int = 0
    seconds: float = 0.0

    def add(self, warmed: Warmed) -> None:
        self.warmings += 1
        self.tokens += warmed.tokens
        self.computed_tokens += warmed.computed_tokens or 0
        self.loaded_tokens += warmed.loaded_tokens or 0
        self.seconds += warmed.seconds


class Warmer:
    """Warms corpora, each at its home, and counts what that took."""

    def __init__(
        self,
        settings: CorporaSettings,
        shelf: Shelf,
        *,
        accounting: RequestAccounting,
        salts: Salts,
    ) -> None:
        self.totals = WarmTotals()
        self.standing: Standing = first_standing()
        self._settings = settings
        self._shelf = shelf
        self._accounting = accounting
        self._salts = salts
        self._log = structlog.get_logger()

    def salt(self, entry: Entry) -> str:
        """What the collection's KV is kept under now."""
        return self._salts.of(entry.collection.tenant, entry.collection.id)

    def priority(self, entry: Entry, view: ReplicaView) -> int | None:
        """What its requests should have now; None where the engine knows no priorities."""
        if not knows_priorities(view.info.settings):
            return None
        return self.standing.of_corpus(entry.collection.priority)

    async def warm(self, entry: Entry, view: ReplicaView, home: Replica) -> None:
        """Warm the newest that was made of a collection, and serve it once it is resident."""
        made, salt = entry.latest, self.salt(entry)
        if made is None:
            return  # dropped for others since it was chosen: it is made again when it is next used
        chunk = home.tier.chunk_tokens() if view.info.tiers else None

        def wanted() -> bool:
            here = entry.home == home.name
            mine = self._shelf.entries.get(entry.collection.id) is entry and here
            return mine and _is_latest(entry, made) and self.salt(entry) == salt

        def learned(tokens: int) -> None:
            if wanted():  # nothing is learned of a salt whose KV was deleted meanwhile
                index = self._accounting.index
                made.watch.warmed(
                    index,
                    tokens,
                    salt=salt,
                    replica=home.name,
                    chunk=chunk,
                    tier=home.tier.name,
                )

        entry.warming = Warming(
            client=home.client,
            ids=unpacked_ids(made.prefix.token_ids),
            salt=salt,
            step_tokens=self._settings.step_tokens,
            multiple=made.setup.multiple,
            priority=self.priority(entry, view),
            wanted=wanted,
            busy=lambda: home.meter.in_flight > 0,
            learned=learned,
        )
        try:
            warmed = await entry.warming.run()
            if warmed is None or not wanted():
                return  # who waits for it waits for what came in its place
            self._warmed(entry, made, warmed, salt)
            entry.stands = entry.warming.priority if entry.held else None
        except EngineError as error:
            self._failed(entry, made, f"it couldn't be warmed: {error}")
        finally:
            entry.warming = None
        entry.end_wait()

    def _warmed(self, entry: Entry, made: Made, warmed: Warmed, salt: str) -> None:
        now = time.monotonic()
        self.totals.add(warmed)
        entry.warm_s, entry.warm_loaded_tokens = warmed.seconds, warmed.loaded_tokens
        if not warmed.resident:
            self._failed(
                entry,
                made,
                f"the engine kept {warmed.proven_tokens or 0:,} of {warmed.tokens:,} tokens only: "
                "its pool is too small, or others need it more",
            )
            return
        if entry.aside is not None and _is_latest(entry, made):
            self._shelf.swap(entry, entry.aside)
        entry.unproven = False
        entry.backoff = entry.backoff.warmed(now)
        entry.proved_at = now
        entry.found_resident(at=now, salt=salt)
        self._log.info(
            "corpus_warmed",
            collection=entry.collection.id,
            replica=entry.home,
            tokens=warmed.tokens,
            computed=warmed.computed_tokens,
            loaded=warmed.loaded_tokens,
            seconds=round(warmed.seconds, 3),
        )

    def _failed(self, entry: Entry, made: Made, problem: str) -> None:
        """It isn't resident; what is served meanwhile, if that is another, stays as it is."""
        self.totals.failed += 1
        self._log.warning("corpus_not_warmed", collection=entry.collection.id, problem=problem)
        now = time.monotonic()
        if entry.serving is not None and entry.serving.prefix.address == made.prefix.address:
            entry.lost(at=now, problem=problem)
        else:
            entry.backoff, entry.problem = entry.backoff.lost(now), problem


def _is_latest(entry: Entry, made: Made) -> bool:
    latest = entry.latest
    return latest is not None and latest.prefix.address == made.prefix.address
