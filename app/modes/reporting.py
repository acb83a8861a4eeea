"""What a finished request's account tells the mode policy."""

from app.accounts import Account
from app.modes.learning import Answered
from app.schemas import Mode
from cache.verdicts import Verdict

_SEARCHING = (Mode.RAG, Mode.HYBRID)


def answered_of(account: Account) -> Answered:
    """The request as far as costs depend on it; one that was never sent says next to nothing."""
    prepared, books, usage = account.prepared, account.accounting, account.usage
    tiers, ssd, redis = usage.by_tier, usage.by_tier.ssd, usage.by_tier.redis
    retrieval = prepared.retrieval if prepared else None
    decision = prepared.decision if prepared else None
    mode = prepared.mode if prepared else None
    lost = books.lost if books else {}
    return Answered(
        collection_id=decision.collection_id if decision else None,
        mode=mode,
        first_turn=retrieval.first_turn if retrieval else True,
        question_tokens=decision.question_tokens if decision else 0,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        loaded_tokens=tiers.storage,
        ram_tokens=tiers.ram,
        below_tokens=None if ssd is None and redis is None else (ssd or 0) + (redis or 0),
        evicted_tokens=lost.get(Verdict.EVICTED, 0),
        found_tokens=retrieval.found_tokens if retrieval else None,
        found=retrieval.found if retrieval else {},
        scaffold_tokens=prepared.scaffold_tokens if prepared and mode is Mode.RAG else 0,
        ttft_s=account.ttft_s,
        retrieval_s=retrieval.search_s if retrieval and mode in _SEARCHING else None,
        others=account.others,
    )
