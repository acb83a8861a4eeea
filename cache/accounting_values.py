"""What goes into the accountant and what it hands out while a request is under way."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from cache.accounting_losses import EngineRules
from cache.accounting_pieces import ID_BYTES, Piece
from cache.divergence import Comparison
from cache.lineage import EarlierPrompt, LineageKey, Recollection
from cache.page_keys import PageKeys
from cache.prefix_match import Match


class PrefixIndex(Protocol):
    """What the accountant asks of a prefix index; its naive twin offers the same."""

    def keys(self, token_ids: bytes) -> PageKeys: ...
    def extended(self, keys: PageKeys, token_ids: bytes) -> PageKeys: ...
    def match(self, keys: PageKeys, *, salt: str, sent_at: float) -> Match: ...
    def sent(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None: ...
    def computed(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None: ...
    def gave_up(self, keys: PageKeys, *, salt: str, replica: str) -> None: ...
    def tiered(self, keys: PageKeys, *, salt: str, at: float, tier: str = "") -> None: ...
    def served(
        self,
        keys: PageKeys,
        *,
        salt: str,
        prompt_tokens: int,
        cached_tokens: int | None,
        labels: Callable[[], Sequence[tuple[int, str]]],
    ) -> None: ...


class SentPrompt(msgspec.Struct, kw_only=True, frozen=True):
    """A prompt on its way to a replica.

    `template` is `name@version`. `packed` are the token ids as in `TokenizedPrompt`; `opening` is
    what of them many prompts begin with, one object for all of those. `session`, where known, names
    the conversation. `sent_at` is of the same clock as all other times. `scaffold_tokens`, for
    `for_client`, are the tokens up to the end of the leading static segments.
    """

    request_id: str
    template: str
    tenant: str
    salt: str
    replica: str
    packed: bytes
    pieces: tuple[Piece, ...]
    sent_at: float
    scaffold_tokens: int = 0
    collection: str | None = None
    opening: bytes = b""
    session: str | None = None

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.packed) // ID_BYTES


class Outcome(msgspec.Struct, kw_only=True, frozen=True):
    """What became of a request; what the engine did not say is None.

    `completed` is whether the whole answer came. `failed` tells an error from a client that left.
    `tiers_skipped` is whether the engine did not ask the tiers for this request; without
    `tiers_known` that is too old a word to say that it gave them any. `events_heard` is whether any
    KV event came from the replica since the request was sent.
    """

    cached_tokens: int | None
    ended_at: float
    completed: bool
    cached_gpu: int | None = None
    cached_storage: int | None = None
    output_ids: Sequence[int] | None = None
    first_token_at: float | None = None
    tiers_skipped: bool | None = None
    tiers_known: bool = True
    failed: bool = False
    events_heard: bool = True


class Expectation(msgspec.Struct, kw_only=True, eq=False):
    """What was known of a prompt when it was sent; handed back when its answer comes.

    `tokens` is the prompt's length. `ideal_tokens` and `predicted_tokens` are as in `Accounting`,
    before the engine has spoken. `rivals` compute so many of its pages at the same time;
    `lost_races` are the replicas and pages of those that were ready by its own first token.
    """

    prompt: SentPrompt
    tokens: int
    rules: EngineRules
    keys: PageKeys
    match: Match
    lineage: LineageKey
    recollection: Recollection
    ideal_tokens: int
    predicted_tokens: int | None
    rivals: "list[tuple[Expectation, int]]" = msgspec.field(default_factory=list)
    lost_races: tuple[tuple[str, int], ...] = ()
    learnt: EarlierPrompt | None = None
    computed: bool = False
    comparison: Comparison | None = None
