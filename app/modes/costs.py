"""What one query costs as RAG, as CAG and as HYBRID, by figures measured here. Pure.

RAG computes the question and those of the found passages that aren't cached. CAG computes the
question over the whole corpus, HYBRID the question and the passages that its core doesn't hold over
that core. A prefix that isn't in the pool is loaded from the tiers or computed again; how often
that will happen follows from the rates of questions, of changes and of other traffic. The formulas
are told in docs/rag-or-cag.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.modes.prices import ModeCost, impossible
from app.modes.ttft import TtftModel
from app.schemas import Mode
from cache.load_cost import LoadCost


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixFacts:
    """A prompt prefix that is kept: a corpus, or a hybrid's core.

    Attributes:
        tokens: of the whole prefix, scaffold included.
        resident_tokens: of them in the KV pool now.
        tiered_tokens: of the rest, in the tiers.
        covers: share of the found tokens that the prefix holds already; 1 for a corpus.
    """

    tokens: int
    resident_tokens: int = 0
    tiered_tokens: int = 0
    covers: float = 1.0

    @property
    def cold_tokens(self) -> int:
        """Neither in the pool nor in the tiers."""
        return max(0, self.tokens - self.resident_tokens - self.tiered_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class RagFacts:
    """What retrieval does for a query of this collection, in the mean.

    Attributes:
        found_tokens: of the passages put into the prompt, with their envelopes.
        cached_share: of the found tokens that the engine holds already, 0 to 1.
        retrieval_s: embedding the question and searching.
        scaffold_tokens: before the passages, cached in every mode.
    """

    found_tokens: float
    cached_share: float = 0.0
    retrieval_s: float = 0.0
    scaffold_tokens: float = 0.0

    def within(self, corpus: PrefixFacts | None) -> "RagFacts":
        """The same where no more can be found than the collection holds, as far as that is known.

        What is taken of a collection before it was asked, or was measured before documents went,
        may be more.
        """
        if corpus is None:
            return self
        most = max(0.0, corpus.tokens - self.scaffold_tokens)
        return replace(self, found_tokens=min(self.found_tokens, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Rates that say how long a prefix stays, and what it displaces.

    Attributes:
        query_per_s: questions to this collection.
        stale_share: share of the questions that find the documents changed, 0 to 1.
        changed_share: share of the prefix that a change makes new, 0 to 1.
        insert_tokens_per_s: tokens that other traffic writes into the pool.
        lost_tokens_per_s: what other traffic computes again because the pool had evicted it.
    """

    query_per_s: float = 0.0
    stale_share: float = 0.0
    changed_share: float = 1.0
    insert_tokens_per_s: float = 0.0
    lost_tokens_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that the price of a query depends on.

    Attributes:
        window_tokens: the model's context.
        pool_tokens: the KV pool's capacity; None where the engine doesn't tell.
        question_tokens: of this query, what follows it in the template included.
        answer_tokens: room kept for the answer.
        tier: cost of a load from the fastest tier that holds corpora; None without tiers.
        corpus: None until its tokens are counted.
        core: None where no core was chosen.
    """

    window_tokens: int
    pool_tokens: int | None
    question_tokens: int
    ttft: TtftModel
    rag: RagFacts
    answer_tokens: int = 1
    tier: LoadCost | None = None
    corpus: PrefixFacts | None = None
    core: PrefixFacts | None = None
    traffic: Traffic = Traffic()


# Rates tell nothing of what is further away.
_LONGEST_HELD_S = 86_400.0


def price(situation: Situation) -> Mapping[Mode, ModeCost]:
    """What the query costs in each mode, those that can't answer included with their reason."""
    situation = replace(situation, rag=situation.rag.within(situation.corpus))
    return {
        Mode.RAG: _rag(situation),
        Mode.CAG: _kept(situation, situation.corpus, "the corpus", _UNCOUNTED),
        Mode.HYBRID: _kept(situation, situation.core, "the core", _NO_CORE),
    }


_UNCOUNTED = "the corpus' tokens are still being counted"
_NO_CORE = "no documents were found often enough to form a core"


def _rag(situation: Situation) -> ModeCost:
    rag = situation.rag
    cached = rag.scaffold_tokens + rag.found_tokens * rag.cached_share
    fresh = situation.question_tokens + rag.found_tokens * (1 - rag.cached_share)
    prompt = math.ceil(cached + fresh)
    if prompt + situation.answer_tokens > situation.window_tokens:
        return impossible(_too_long("the passages", prompt, "window", situation.window_tokens))
    cost = ModeCost(
        prompt_tokens=prompt,
        prefill_tokens=fresh,
        prefill_s=situation.ttft.seconds(fresh, cached),
        retrieval_s=rag.retrieval_s,
        pool_tokens=fresh,
        eviction_s=_pushed_out_s(situation, fresh),
    )
    return replace(cost, lasting_s=cost.total_s)


def _kept(situation: Situation, prefix: PrefixFacts | None, what: str, missing: str) -> ModeCost:
    """CAG and HYBRID: a prefix that stays, and behind it what is new."""
    if prefix is None:
        return impossible(missing)
    rag = situation.rag
    fresh = situation.question_tokens + rag.found_tokens * (1 - prefix.covers)
    prompt = math.ceil(prefix.tokens + fresh)
    problem = _does_not_fit(situation, prompt, what)
    if problem is not None:
        return impossible(problem)
    ttft, cold = situation.ttft, prefix.cold_tokens
    tier, tiered = situation.tier, prefix.tiered_tokens
    loads = tier.seconds(tiered) if tier is not None and tiered > 0 else 0.0
    recomputed = cold if tier is not None else cold + tiered
    warm_s = ttft.seconds(fresh, prefix.tokens)
    prefill_s = ttft.seconds(fresh + recomputed, prefix.tokens - recomputed)
    cost = ModeCost(
        prompt_tokens=prompt,
        prefill_tokens=fresh + recomputed,
        prefill_s=prefill_s,
        load_s=loads,
        retrieval_s=0.0 if prefix.covers >= 1 else rag.retrieval_s,
        pool_tokens=prefix.tokens,
        eviction_s=_pushed_out_s(situation, fresh) + _held_s(situation, prefix.tokens),
        warm_s=prefill_s - warm_s + loads,
    )
    lasting = cost.total_s - cost.warm_s + _renewal_s(situation, prefix)
    return replace(cost, lasting_s=lasting)


def _does_not_fit(situation: Situation, prompt: int, what: str) -> str | None:
    needed = prompt + situation.answer_tokens
    if needed > situation.window_tokens:
        return _too_long(what, prompt, "window", situation.window_tokens)
    if situation.pool_tokens is not None and needed > situation.pool_tokens:
        return _too_long(what, prompt, "KV pool", situation.pool_tokens)
    return None


def _too_long(what: str, prompt: int, place: str, limit: int) -> str:
    return f"{what} and the question are {prompt:,} tokens, and the {place} holds {limit:,}"


def _renewal_s(situation: Situation, prefix: PrefixFacts) -> float:
    """Expected seconds a query for making the prefix again, after a change or an eviction."""
    traffic, ttft = situation.traffic, situation.ttft
    again_s = ttft.compute_s(prefix.tokens, 0)
    changed = prefix.tokens * traffic.changed_share
    changed_s = ttft.compute_s(changed, prefix.tokens - changed)
    gone = 1.0 - _stays(situation, prefix)
    back_s = min(again_s, situation.tier.seconds(prefix.tokens)) if situation.tier else again_s
    stale = traffic.stale_share
    return stale * changed_s + (1 - stale) * gone * back_s


def _stays(situation: Situation, prefix: PrefixFacts) -> float:
    """How probable it is that the next question finds the prefix in the pool.

    Questions come at random times (Poisson); a prefix that wasn't used for `_stay_s` is gone.
    """
    stay_s = _stay_s(situation, held=prefix.tokens)
    if math.isinf(stay_s):
        return 1.0
    return 1.0 - math.exp(-situation.traffic.query_per_s * stay_s)


def _stay_s(situation: Situation, *, held: float) -> float:
    """Seconds until other traffic has pushed out `held` unused tokens (least recently used)."""
    inserts = situation.traffic.insert_tokens_per_s
    if situation.pool_tokens is None or inserts <= 0:
        return math.inf
    return max(0.0, situation.pool_tokens - held) / inserts


def _pushed_out_s(situation: Situation, inserted: float) -> float:
    """Prefill of others that is lost by writing tokens into the pool: of what is pushed out, as
    much is wanted again as of what was pushed out lately."""
    traffic = situation.traffic
    if traffic.insert_tokens_per_s <= 0:
        return 0.0
    lost = min(1.0, traffic.lost_tokens_per_s / traffic.insert_tokens_per_s)
    return inserted * lost * situation.ttft.per_token_s


def _held_s(situation: Situation, held: float) -> float:
    """Prefill of others that is lost, from one query to the next, by holding a prefix.

    Others' KV has that much less room, so it stays for a shorter while by that share. What was
    re-used rarely enough to be lost then grows by the same share, where gaps between re-uses have
    a long tail, as sessions have. The mean hit rate of a pool's token would be far too much:
    what goes is what was used least lately.
    """
    traffic, pool = situation.traffic, situation.pool_tokens
    # What was lost is written again, so it is a part of what is written.
    lost_per_s = min(traffic.lost_tokens_per_s, traffic.insert_tokens_per_s)
    if lost_per_s <= 0 or traffic.query_per_s <= 0 or not pool:
        return 0.0
    for_s = min(_LONGEST_HELD_S, 1 / traffic.query_per_s, _stay_s(situation, held=held))
    return for_s * lost_per_s * held / pool * situation.ttft.per_token_s
