"""What is learned of one request on its way: its ledger row, and its answer's `foreword` block."""

import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from app.citations import cite
from app.prepared import Prepared
from app.problems import problem_of
from app.spoken import SpokenAnswer
from cache.accounting import Accountant, Expectation, for_client
from cache.diagnostics import diagnostics
from cache.rows import LedgerRow, RequestStatus
from cache.usage import CacheUsage, Tier, TierTokens, parse_usage
from cache.verdicts import Accounting

JSONObject = dict[str, Any]

# As much of a mode's reason as the ledger keeps.
_REASON = 512


@dataclass(slots=True, kw_only=True)
class Account:
    """One request, from its arrival to its end."""

    request_id: str
    tenant: str
    started: float = field(default_factory=time.perf_counter)
    prepared: Prepared | None = None
    template: str = "unknown"
    collection: str | None = None
    usage: CacheUsage = field(default_factory=CacheUsage)
    ttft_s: float | None = None
    status: RequestStatus = RequestStatus.ABORTED
    error_code: str | None = None
    spoken: SpokenAnswer = field(default_factory=SpokenAnswer)
    engine_url: str = ""
    tiers: tuple[Tier, ...] = tuple(Tier)
    keeps_text: bool = False
    diagnoses: bool = False
    accountant: Accountant | None = None
    expectation: Expectation | None = None
    first_token_at: float | None = None
    accounting: Accounting | None = None
    settled: bool = False
    others: int | None = None
    reported_usage: JSONObject | None = None
    _sglext: JSONObject = field(default_factory=dict)

    def learn(self, answer: JSONObject) -> None:
        """Keep what an answer, or a chunk of one, says, and what it says about re-use.

        SGLang sends usage, the split by tier and the answer's token ids in chunks of their own.
        """
        usage, extension = answer.get("usage"), answer.get("sglext")
        if usage and isinstance(usage, dict):
            self.reported_usage = usage
        if isinstance(extension, dict):
            self._sglext |= extension
        for choice in answer.get("choices") or ():
            if choice.get("index", 0) == 0:
                self.spoken.add(choice.get("message") or choice.get("delta") or {})

    def read_usage(self) -> None:
        """Make sense of all that was learned."""
        below = frozenset(self.tiers) - {Tier.GPU}
        self.usage = parse_usage(self.reported_usage, self._sglext, lmcache_tiers=below)
        if self.copies > 1:
            # SGLang computes the prompt in a request of its own, whose figures it throws away, and
            # reports that of a copy: nearly all re-used, whatever was.
            self.usage = replace(self.usage, cached_tokens=None, by_tier=TierTokens())

    @property
    def copies(self) -> int:
        """How many answers to one prompt were asked for."""
        copies = self.prepared.body.get("n") if self.prepared else None
        return copies if isinstance(copies, int) else 1

    def split_storage(self, ram: int, ssd: int, redis: int) -> None:
        """Take the tier server's word for where the engine's loads came from."""
        tiers = TierTokens(
            gpu=self.usage.by_tier.gpu,
            ram=ram,
            ssd=ssd,
            redis=redis,
            storage=self.usage.by_tier.storage,
        )
        self.usage = replace(self.usage, by_tier=tiers)

    @property
    def output_ids(self) -> list[int] | None:
        """Token ids of the (first) answer; None where the engine didn't tell them."""
        match self._sglext.get("output_ids"):
            case [list() as first, *_]:
                return first
            case _:
                return None

    def first_content(self) -> bool:
        """Content has come; True for the first of it."""
        if self.ttft_s is not None:
            return False
        self.ttft_s = self.elapsed_s()
        return True

    def elapsed_s(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self.started

    def failed(self, error: Exception) -> None:
        """The request ends in an error."""
        self.status = RequestStatus.ERROR
        self.error_code = problem_of(error).code

    def row(self) -> LedgerRow:
        """The ledger row, as of now."""
        prepared, tiers, books = self.prepared, self.usage.by_tier, self.accounting
        local_tokens = len(prepared.prompt.token_ids) if prepared and prepared.prompt else None
        reported = self.usage.prompt_tokens
        return LedgerRow(
            request_id=self.request_id,
            at=datetime.now(UTC),
            tenant=self.tenant,
            template=prepared.template if prepared else self.template,
            status=self.status,
            collection=prepared.collection if prepared else self.collection,
            mode=prepared.mode.value if prepared and prepared.mode else None,
            replica=prepared.replica if prepared else None,
            route_reason=prepared.route_reason if prepared else None,
            mode_reason=(prepared.mode_reason or "")[:_REASON] or None if prepared else None,
            predicted_ttft_s=predicted_ttft_s(prepared),
            prompt_tokens=local_tokens if reported is None else reported,
            ideal_tokens=books.ideal_tokens if books else None,
            predicted_tokens=books.predicted_tokens if books else None,
            cached_tokens=self.usage.cached_tokens,
            cached_gpu=tiers.gpu,
            cached_ram=tiers.ram,
            cached_ssd=tiers.ssd,
            cached_redis=tiers.redis,
            cached_storage=tiers.storage,
            new_tokens=books.new_tokens if books else None,
            lost={verdict.value: n for verdict, n in books.lost.items()} if books else None,
            completion_tokens=self.usage.completion_tokens,
            ttft_s=self.ttft_s,
            e2e_s=self.elapsed_s(),
            verdict=books.verdict.value if books else None,
            cause=books.cause if books else None,
            divergence=asdict(books.divergence) if books and books.divergence else None,
            error_code=self.error_code,
            scaffold=prepared.rendered.fingerprint if prepared else None,
            prompt_digest=prepared.digest if prepared else None,
            prompt_text=prepared.text if prepared and self.keeps_text else None,
        )

    def block(self) -> JSONObject:
        """The `foreword` object of the response; what isn't known is null."""
        prepared, tiers = self.prepared, self.usage.by_tier
        assert prepared is not None
        books = for_client(self.accounting, prepared.scaffold_tokens) if self.accounting else None
        asked = {"diagnostics": diagnostics(self.row())} if self.diagnoses else {}
        return {
            "request_id": self.request_id,
            "template": prepared.template,
            "tenant": self.tenant,
            "collection": prepared.collection,
            "mode": prepared.mode,
            "mode_reason": prepared.mode_reason,
            "mode_costs": prepared.decision.costs_json() if prepared.decision else None,
            "predicted_ttft_s": predicted_ttft_s(prepared),
            "replica": prepared.replica,
            "route_reason": prepared.route_reason,
            "prompt_tokens": self.usage.prompt_tokens,
            "ideal_tokens": books.ideal_tokens if books else None,
            "cached_tokens": self.usage.cached_tokens,
            "cached_by_tier": {
                "gpu": tiers.gpu,
                "ram": tiers.ram,
                "ssd": tiers.ssd,
                "redis": tiers.redis,
                "storage": tiers.storage,
            },
            "ttft_s": self.ttft_s,
            "verdict": books.verdict.value if books else None,
            "cause": books.cause if books else None,
            "divergence": asdict(books.divergence) if books and books.divergence else None,
            "citations": cite(self.spoken.text, prepared.sources),
            **asked,
        }


def predicted_ttft_s(prepared: Prepared | None) -> float | None:
    """What was expected of the time to the first token in the request's mode; None unpriced."""
    if prepared is None or prepared.decision is None or prepared.mode is None:
        return None
    return prepared.decision.predicted_ttft_s(prepared.mode)
