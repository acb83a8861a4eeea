"""Candidates for one request: what each replica holds of its prompt, and how much it has to do."""

import time
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.prepared import Prepared
from app.replica import Replica
from app.routing import Candidate, Route, RouteRequest, RoutingPolicy
from app.tiers import TierSide
from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex
from cache.prefix_match import Match
from prompts import TokenizedPrompt

_TOKEN_BYTES = 4
# Of a prompt that the engine renders, tokens are guessed from its text.
_CHARACTERS_A_TOKEN = 4


_KEYS = "page keys"


class _NotedKeys(NamedTuple):
    of: PrefixIndex
    keys: PageKeys
    pages: int


class Look(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt looked up in the index, once for routing and accounting.

    Attributes:
        at: when, by the monotonic clock.
    """

    index: PrefixIndex
    salt: str
    keys: PageKeys
    match: Match
    at: float

    def again(self) -> "Look":
        """The same prompt as of now."""
        now = time.monotonic()
        match = self.index.match(self.keys, salt=self.salt, sent_at=now)
        return msgspec.structs.replace(self, match=match, at=now)


class Choice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a request goes, and where it would go next.

    Attributes:
        held: replica → leading tokens of the prompt that needn't be computed there.
    """

    route: Route
    look: Look | None
    tokens: int
    held: dict[str, int]

    def to_compute(self, replica: str) -> int:
        """Tokens that the replica has to compute, as far as is known."""
        return max(0, self.tokens - self.held.get(replica, 0))


def look_up(index: PrefixIndex | None, prepared: Prepared) -> Look | None:
    """Where the prompt's pages are; None where its ids aren't known, or nothing is counted."""
    if index is None or prepared.prompt is None:
        return None
    keys, now = _keys(index, prepared.prompt), time.monotonic()
    match = index.match(keys, salt=prepared.salt, sent_at=now)
    return Look(index=index, salt=prepared.salt, keys=keys, match=match, at=now)


class Chooser:
    """Asks the routing policy.

    Args:
        opening_tokens: of the prompt's beginning that decide where all else is equal.
    """

    def __init__(
        self,
        policy: RoutingPolicy,
        *,
        opening_tokens: int,
    ) -> None:
        self._policy = policy
        self._only: dict[str, Route] = {}
        self._opening_bytes = opening_tokens * _TOKEN_BYTES

    def choose(
        self,
        replicas: Sequence[Replica],
        prepared: Prepared,
        look: Look | None,
        *,
        deadline_s: float | None = None,
    ) -> Choice:
        """The replica for a request; `replicas` is never empty."""
        prompt = prepared.prompt
        tokens = _guessed_tokens(prepared) if prompt is None else prompt.tokens
        if len(replicas) == 1:
            # Nothing to decide; what it holds is asked for once, by the accounting.
            route = self._only.get(replicas[0].name)
            if route is None:
                route = Route(replica=replicas[0].name, reason="only replica")
                self._only = {route.replica: route}
            held = {route.replica: _held(replicas[0], look, tokens)}
            return Choice(route=route, look=look, tokens=tokens, held=held)
        candidates = self._candidates(replicas, look, tokens)
        request = RouteRequest(
            tokens=tokens,
            affinity=self._affinity(prepared),
            deadline_s=deadline_s,
            at_s=time.monotonic() if look is None else look.at,
        )
        return Choice(
            route=self._policy.choose(request, candidates),
            look=look,
            tokens=tokens,
            held={c.name: c.tier_tokens for c in candidates},
        )

    def _candidates(
        self, replicas: Sequence[Replica], look: Look | None, tokens: int
    ) -> list[Candidate]:
        tiered: dict[TierSide, tuple[int, float | None]] = {}
        candidates = []
        for replica in replicas:
            tier = replica.tier
            if tier not in tiered:
                tiered[tier] = _given(tier, look, tokens), tier.load_s()
            given, tier_load_s = tiered[tier]
            held = _held(replica, look, tokens)
            reach = held
            if given > held and (view := replica.seen) is not None and view.info.tiers:
                reach = given
            candidates.append(
                Candidate(
                    name=replica.name,
                    load=replica.load,
                    held_tokens=held,
                    tier_tokens=reach,
                    tier_load_s=tier_load_s,
                    in_flight=replica.meter.in_flight_everywhere,
                )
            )
        return candidates

    def _affinity(self, prepared: Prepared) -> bytes:
        opening = _packed(prepared.prompt) if prepared.prompt else prepared.text.encode()
        return prepared.salt.encode() + b"/" + opening[: self._opening_bytes]


def _given(tier: TierSide, look: Look | None, tokens: int) -> int:
    """Leading tokens that these tiers were given, in whole chunks."""
    chunk = tier.chunk_tokens() if look is not None else None
    if look is None or not chunk:
        return 0
    return min(look.match.given(tier.name) * look.index.page_tokens, tokens) // chunk * chunk


def _held(replica: Replica, look: Look | None, tokens: int) -> int:
    """Leading tokens in the replica's GPU, or being computed there."""
    if look is None:
        return 0
    here = look.match.replicas.get(replica.name)
    if here is None:
        return 0
    if here.resident is not None:
        pages = here.resident
    elif here.evidence_lost_at is None or here.last_cleared_at is not None:
        # Without events that is all that was left there since it was started. Of a cache that was
        # dropped once, what was left may be from before.
        pages = here.resident_at_least
    else:
        # What was left is believed to be there still: to believe too much costs hardly any hits,
        # too little costs up to half of them.
        pages = max(here.left, here.resident_at_least)
    if here.racing > here.left:
        # A request under way computes them again, whatever became of them since.
        pages = max(pages, here.racing)
    return min(pages * look.index.page_tokens, tokens)


def _keys(index: PrefixIndex, prompt: TokenizedPrompt) -> PageKeys:
    """Those of a beginning that was met before are kept with it."""
    stem = prompt.stem
    if stem is None:
        return index.keys(_packed(prompt))
    known = stem.lasting.get(_KEYS)
    if not isinstance(known, _NotedKeys) or known.of is not index:
        keys = index.keys(stem.packed)
        known = stem.lasting[_KEYS] = _NotedKeys(index, keys, len(keys))
    elif known.pages < stem.tokens // index.page_tokens:  # those of a stem that it grew from
        keys = index.extended(known.keys, stem.packed)
        known = stem.lasting[_KEYS] = _NotedKeys(index, keys, len(keys))
    return index.extended(known.keys, prompt.packed)


def _packed(prompt: TokenizedPrompt) -> bytes:
    """32 bits a token id."""
    return prompt.packed or array("I", prompt.token_ids).tobytes()


def _guessed_tokens(prepared: Prepared) -> int:
    return len(prepared.text) // _CHARACTERS_A_TOKEN
