"""One collection's corpus: what requests are shown, what is warmed, and what is known of it."""

import time
from dataclasses import dataclass, field

import anyio

from app.corpora.budget import Backoff, Demand
from app.corpora.content import Change, CorpusContent, change_between
from app.corpora.rendering import shared_tokens
from app.corpora.residency import PrefixWatch
from app.corpora.values import CorpusPrefix, CorpusState
from app.corpora.warming import Warming
from retrieval import Collection

_BYTES_A_CHARACTER = 8
"""The documents, and the passages that cite them with the words that answers are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What token ids are made with; another setup, another prefix."""

    template: str
    model: str
    tokenizer: str | None
    multiple: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A prefix, and what it was made of."""

    content: CorpusContent
    prefix: CorpusPrefix
    setup: Setup
    watch: PrefixWatch = field(repr=False)

    @property
    def tokens(self) -> int:
        return self.prefix.tokens or 0

    @property
    def memory_bytes(self) -> int:
        """About what it takes in the gateway."""
        return _BYTES_A_CHARACTER * self.content.characters + len(self.prefix.token_ids)


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """A collection's corpus.

    Attributes:
        serving: what requests get; None until it is first asked for.
        aside: what they will get once it is warm; `aside_since` is when the first such was made.
        held: whether the engine holds all of `serving`, as last seen.
        salt: what it was last warmed or seen resident under.
        home: the replica that keeps it; None until there was one.
        kept: whether it has a place in the engine's memory.
        stands: the priority that its KV has in the engine; None where it has none of its own.
        unproven: the engine was away since its events last told of it.
        running: requests under way that are shown it.
        asked: somebody waits for it to be warm, whether or not it has a place.
        ended: set when a warming ends, however it does.
        proved_at: when an answer last proved it; younger than events, which take a moment.
    """

    collection: Collection
    demand: Demand
    backoff: Backoff = field(default_factory=Backoff)
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    serving: Made | None = None
    aside: Made | None = None
    aside_since: float | None = None
    state: CorpusState = CorpusState.COLD
    held: bool = False
    salt: str | None = None
    home: str | None = None
    kept: bool = False
    stands: int | None = None
    unproven: bool = False
    running: int = 0
    asked: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)
    warming: Warming | None = None
    building: bool = False
    resident_tokens: int | None = None
    tiered_tokens: int | None = None
    proved_at: float | None = None
    verified_at: float | None = None
    warm_s: float | None = None
    warm_loaded_tokens: int | None = None
    problem: str | None = None
    used_at: float = 0.0

    @property
    def latest(self) -> Made | None:
        """The newest that was made."""
        return self.aside or self.serving

    def is_current(self, revision: int, setup: Setup) -> bool:
        """Whether what was made last is of this revision or a later one, and of this setup."""
        latest = self.latest
        return latest is not None and latest.setup == setup and latest.content.revision >= revision

    def take(self, made: Made, *, at: float, swap: bool) -> int:
        """A new prefix was made: serve it, or keep it aside until it is warm.

        A document that is gone is never shown again, and one that was added is shown at once; only
        other bytes under the same name wait.

        Returns:
            Tokens of KV that no corpus wants any more.
        """
        before = self.serving
        if before is None or before.setup != made.setup:
            return self.serve(made)
        change = change_between(before.content, made.content)
        if change is Change.SAME and before.prefix.address == made.prefix.address:
            self.serving, self.aside, self.aside_since = made, None, None
            return 0
        if change is Change.CHANGED and self.held and swap and not made.content.restricted:
            self.aside = made
            self.aside_since = at if self.aside_since is None else self.aside_since
            return 0
        return self.serve(made)

    def serve(self, made: Made) -> int:
        """Show a prefix from now on; returns the tokens of the old one that are left over."""
        before = self.serving
        self.serving, self.aside, self.aside_since = made, None, None
        if before is None:
            return 0
        left = 0
        if self.stands is not None:
            left = before.tokens - shared_tokens(before.prefix.token_ids, made.prefix.token_ids)
        if self.held:
            self.state = CorpusState.STALE
            self.problem = "its documents changed"
        self.held, self.resident_tokens, self.proved_at, self.stands = False, None, None, None
        return max(0, left)

    def found_resident(self, *, at: float, salt: str) -> None:
        """The engine holds all of it."""
        assert self.serving is not None
        self.state, self.problem, self.held = CorpusState.RESIDENT, None, True
        self.salt, self.resident_tokens = salt, self.serving.tokens
        self.verified_at = time.time()
        if self.backoff.warmed_at is None:
            self.backoff = self.backoff.warmed(at)

    def lost(self, *, at: float, problem: str) -> None:
        """The engine held it and does no more, or could not be made to."""
        self.state, self.problem, self.held = CorpusState.STALE, problem, False
        self.proved_at = self.stands = None
        self.backoff = self.backoff.lost(at)

    def move(self, home: str) -> None:
        """Another replica keeps it from now on."""
        if self.home is not None:
            if self.state in (CorpusState.RESIDENT, CorpusState.WARMING):
                self.state = CorpusState.STALE
            self.problem = f"it moves to {home}, since {self.home} takes no requests"
        self.home, self.held, self.unproven = home, False, False
        self.resident_tokens = self.proved_at = self.stands = None

    def end_wait(self) -> None:
        """Nobody need wait any longer."""
        self.asked = False
        self.ended.set()
        self.ended = anyio.Event()
