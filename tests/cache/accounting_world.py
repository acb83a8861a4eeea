"""A small exact engine for the accountant: real prompts, the simulator's radix tree and tier.

Everything happens when the test says so: a request is sent, scheduled (what is cached is decided),
begins to answer (its pages enter the tree) and ends. Events reach the index when they are told to.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.engine_sim.changes import Cleared, Namespace, Removed
from bench.engine_sim.config import TierConfig
from bench.engine_sim.events import as_event
from bench.engine_sim.radix import RadixTree
from bench.engine_sim.tier import Tier
from cache.accounting import Accountant, EngineRules, Expectation, Outcome, SentPrompt, pieces_of
from cache.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from cache.naive_index import NaiveIndex
from cache.prefix_index import PrefixIndex
from cache.verdicts import Accounting, Verdict
from prompts import (
    Message,
    PromptDocument,
    PromptTokenizer,
    Template,
    TokenizedPrompt,
    Tool,
    Volatility,
    render,
)

Index = NaiveIndex | PrefixIndex


@dataclass(slots=True, kw_only=True)
class Flight:
    """A request under way, and what the engine decided about it."""

    prompt: TokenizedPrompt
    salt: str
    replica: str
    expectation: Expectation
    left: int  # what the salt had left anywhere before it was sent, in tokens that count
    left_here: int  # the same, of this replica
    device: int = 0
    loaded: int = 0
    began_at: float | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        return self.prompt.token_ids

    @property
    def cached(self) -> int:
        return self.device + self.loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A request that has ended, beside the truth."""

    flight: Flight
    accounting: Accounting

    @property
    def lost(self) -> dict[Verdict, int]:
        return dict(self.accounting.lost)


@dataclass(slots=True, kw_only=True)
class World:
    """Replicas with their trees, the tiers behind them, and the accountant that watches."""

    tokenizer: PromptTokenizer
    index: Index
    random: random.Random
    page: int = 16
    chunk: int | None = None
    kv_events: bool = True
    cache_report: bool = True
    now: float = 100.0
    trees: dict[str, RadixTree] = field(default_factory=dict)
    left: dict[tuple[str, str], list[tuple[int, ...]]] = field(default_factory=dict)
    tier_is_down: bool = False
    guard_is_silent: bool = False
    salt: str = "salt-a"
    made: int = 0
    accountant: Accountant = field(init=False)
    tier: Tier | None = field(init=False)

    def __post_init__(self) -> None:
        self.accountant = Accountant(self.index)
        self.tier = Tier(TierConfig(chunk_tokens=self.chunk)) if self.chunk else None

    @property
    def rules(self) -> EngineRules:
        return EngineRules(
            page_tokens=self.page,
            chunk_tokens=self.chunk,
            cache_report=self.cache_report,
            kv_events=self.kv_events,
        )

    def words(self, count: int) -> str:
        """Random text of so many words."""
        return " ".join(self.random.choice(_WORDS) for _ in range(count)).capitalize() + "."

    def document(self, words: int | None = None) -> PromptDocument:
        self.made += 1
        count = words or self.random.randint(40, 90)
        return PromptDocument(name=f"file-{self.made}.md", text=self.words(count))

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def send(
        self,
        template: Template,
        values: dict[str, object],
        *,
        tools: tuple[Tool, ...] = (),
        salt: str | None = None,
        replica: str = "r0",
        collection: str | None = None,
    ) -> Flight:
        """The prompt is on its way; its engine has not looked at it yet."""
        made = render(template, values)  # type: ignore[arg-type]
        if tools:
            made = type(made)(
                template=made.template,
                segments=made.segments,
                tools=tools,
                tools_volatility=Volatility.SESSION,
            )
        prompt = self.tokenizer.tokenize(made)
        salt = salt or self.salt
        at = self.tick()
        self.made += 1
        sent = SentPrompt(
            request_id=f"r-{self.made}",
            template=template.reference,
            tenant=salt,
            salt=salt,
            replica=replica,
            collection=collection,
            packed=prompt.packed,
            pieces=pieces_of(prompt),
            scaffold_tokens=max(
                (p.stop for p in prompt.ranges if p.segment.volatility is Volatility.STATIC),
                default=0,
            ),
            sent_at=at,
        )
        self.tree(replica)
        return Flight(
            prompt=prompt,
            salt=salt,
            replica=replica,
            expectation=self.accountant.expect(sent, self.rules),
            left=self.truly_left(prompt.token_ids, salt),
            left_here=self.truly_left(prompt.token_ids, salt, replica),
        )

    def schedule(self, flight: Flight, *, at_most: int | None = None) -> Flight:
        """The engine decides what it re-uses; `at_most` makes it re-use less than it could."""
        ids = flight.ids
        tree = self.tree(flight.replica)
        flight.device = tree.match(_space(flight.salt), ids, limit=len(ids) - 1).tokens
        if self.tier is not None and not self.tier_is_down:
            stored = self.tier.lookup(_space(flight.salt), ids[:-1])
            flight.loaded = max(0, stored - flight.device)
        if at_most is not None:
            flight.device, flight.loaded = min(flight.device, at_most), 0
        return flight

    def begin(self, flight: Flight, *, events: bool = True) -> Flight:
        """The first token: the prompt's pages are in the tree."""
        flight.began_at = self.tick()
        self.tree(flight.replica).insert(_space(flight.salt), flight.ids)
        self.left.setdefault((flight.salt, flight.replica), []).append(flight.ids)
        if events:
            self.deliver(flight.replica)
        self.accountant.first_token(flight.expectation, flight.began_at)
        return flight

    def end(
        self,
        flight: Flight,
        *,
        output: Sequence[int] | None = None,
        reported: bool = True,
        completed: bool = True,
        failed: bool = False,
        events: bool = True,
        heard: bool = True,
    ) -> Settled:
        """The last token, or the end without one."""
        if output is None:
            output = [self.random.randrange(300, 600) for _ in range(self.random.randint(5, 30))]
        at = self.tick()
        if completed:
            whole = (*flight.ids, *output)[:-1]
            self.tree(flight.replica).insert(_space(flight.salt), whole)
            self.left.setdefault((flight.salt, flight.replica), []).append(tuple(whole))
            if self.tier is not None and not self.tier_is_down:
                self.tier.store(_space(flight.salt), whole)
        if events:
            self.deliver(flight.replica)
        accounting = self.accountant.settle(
            flight.expectation,
            Outcome(
                cached_tokens=flight.cached if reported else None,
                cached_gpu=flight.device if reported else None,
                cached_storage=flight.loaded if reported else None,
                output_ids=list(output) if completed else None,
                first_token_at=flight.began_at,
                ended_at=at,
                completed=completed,
                failed=failed,
                tiers_skipped=self.tier_is_down if self.tier is not None else None,
                tiers_known=not self.guard_is_silent,
                events_heard=heard,
            ),
        )
        return Settled(flight=flight, accounting=accounting)

    def ask(self, template: Template, values: dict[str, object], **options: object) -> Settled:
        """A request that is alone: sent, answered, settled."""
        flight = self.send(template, values, **options)  # type: ignore[arg-type]
        return self.end(self.begin(self.schedule(flight)))

    def evict(self, replica: str = "r0", *, keep: int = 0, events: bool = True) -> int:
        """The engine needs room: all but about `keep` tokens go, least recently used first."""
        tree = self.tree(replica)
        freed = tree.evict(max(0, tree.evictable_tokens - keep))
        if events:
            self.deliver(replica)
        return freed

    def flush(self, replica: str = "r0", *, events: bool = True) -> None:
        self.tree(replica).clear()
        self.tick()
        if events:
            self.deliver(replica)

    def lose_events(self, replica: str = "r0") -> None:
        """What the engine has published since the last delivery never arrives."""
        self.tree(replica).take_changes()
        self.index.evidence_lost(replica, at=self.tick())

    def deliver(self, replica: str) -> None:
        """The engine's events reach the index."""
        if not self.kv_events:
            self.tree(replica).take_changes()
            return
        for change in self.tree(replica).take_changes():
            event = as_event(change, page_size=self.page)
            match change:
                case Cleared():
                    assert AllBlocksCleared
                    self.index.cleared(replica, at=self.now)
                case Removed():
                    gone = BlockRemoved(block_hashes=event.block_hashes, medium=event.medium)  # type: ignore[union-attr]
                    self.index.removed(replica, gone, at=self.now)
                case _:
                    made = BlockStored(
                        block_hashes=event.block_hashes,  # type: ignore[union-attr]
                        parent_block_hash=event.parent_block_hash,  # type: ignore[union-attr]
                        token_ids=event.token_ids,  # type: ignore[union-attr]
                        block_size=event.block_size,  # type: ignore[union-attr]
                        medium=event.medium,  # type: ignore[union-attr]
                        cache_salt=event.cache_salt,  # type: ignore[union-attr]
                    )
                    self.index.stored(replica, made, at=self.now)

    def tree(self, replica: str) -> RadixTree:
        if replica not in self.trees:
            self.trees[replica] = RadixTree(page_size=self.page, record_changes=True)
            if self.kv_events:
                self.index.cleared(replica, at=self.now - 50)
        return self.trees[replica]

    def truly_left(self, ids: tuple[int, ...], salt: str, replica: str | None = None) -> int:
        """The longest whole pages that a sequence of this salt begins with, by looking at all."""
        sequences = [
            sequence
            for (its_salt, where), left in self.left.items()
            for sequence in left
            if its_salt == salt and replica in (None, where)
        ]
        longest = max((_shared(ids, other) for other in sequences), default=0)
        return min(longest, len(ids) - 1) // self.page * self.page


_VOCABULARY = (
    "the ferry leaves at nine and comes back by noon while a lighthouse keeper counts old boats "
    "prices adults children dogs travel free call for groups open from ten to five every day "
    "question answer document harbour island storm winter ticket office museum garden bridge"
)
_WORDS = _VOCABULARY.split(" ")


def message(role: str, content: str) -> Message:
    return Message(role=role, content=content)


def _space(salt: str) -> Namespace:
    return Namespace(salt=salt)


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    length = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
