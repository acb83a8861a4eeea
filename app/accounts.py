"""What is learned of one request on its way: its ledger row, and its answer's `foreword` block."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from app.admission.ticket import Ticket
from app.citations import cite
from app.fleet.choosing import Look
from app.hot.departure import Departure
from app.prepared import Prepared
from app.problems import problem_of
from app.replica import Replica
from app.series import Buckets
from app.spoken import SpokenAnswer
from app.stored.records import Resumption
from cache.accounting import Accountant, Expectation, for_client
from cache.diagnostics import diagnostics
from cache.rows import LedgerRow, RequestStatus
from cache.usage import CacheUsage, Tier, TierTokens, parse_usage
from cache.verdicts import Accounting, Verdict

JSONObject = dict[str, Any]

_NO_USAGE = CacheUsage()
# As much of a mode's and a route's reason as the ledger keeps.
_REASON, _ROUTE_REASON = 512, 256


class Account(msgspec.Struct, kw_only=True, eq=False):
    """One request, from its arrival to its end."""

    request_id: str
    tenant: str
    started: float = msgspec.field(default_factory=time.perf_counter)
    prepared: Prepared | None = None
    template: str = "unknown"
    collection: str | None = None
    usage: CacheUsage = _NO_USAGE
    ttft_s: float | None = None
    status: RequestStatus = RequestStatus.ABORTED
    error_code: str | None = None
    spoken: SpokenAnswer = msgspec.field(default_factory=SpokenAnswer)
    engine_url: str = ""
    tiers: tuple[Tier, ...] = tuple(Tier)
    keeps_text: bool = False
    diagnoses: bool = False
    accountant: Accountant | None = None
    expectation: Expectation | None = None
    first_token_at: float | None = None
    accounting: Accounting | None = None
    replica: Replica | None = None
    look: Look | None = None
    settled: bool = False
    others: int | None = None
    ticket: Ticket | None = None
    deadline_s: float | None = None
    max_prompt_tokens: int | None = None
    departure: Departure | None = None
    reported_usage: JSONObject | None = None
    gaps: Buckets | None = None
    sent_at: float | None = None
    # What a stored conversation brings, what it cost to compact it, what keeps the turn before its
    # client is told that it is complete, and what gives it up before its client is told that.
    resumption: Resumption | None = None
    compaction: Mapping[str, int | None] | None = None
    keep: Callable[[], Awaitable[None]] | None = None
    leave: Callable[[], Awaitable[None]] | None = None
    _content_at: float = 0.0
    _sglext: JSONObject = msgspec.field(default_factory=dict)

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
                self._learn_first(choice)

    def _learn_first(self, choice: JSONObject) -> None:
        """What the first answer says; a text completion has its token ids in the choice itself."""
        if "text" in choice:
            self.spoken.add({"content": choice["text"]})
            [ids] = self._sglext.setdefault("output_ids", [[]])
            ids += choice.get("token_ids") or ()
        else:
            self.spoken.add(choice.get("message") or choice.get("delta") or {})

    def read_usage(self) -> None:
        """Make sense of all that was learned."""
        below = _below(self.tiers)
        self.usage = parse_usage(self.reported_usage, self._sglext, lmcache_tiers=below)
        n = None if self.prepared is None else self.prepared.body.get("n")
        if isinstance(n, int) and n > 1:
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
        told = self._sglext.get("output_ids")
        if isinstance(told, list) and told and isinstance(told[0], list):
            return told[0]
        return None

    def sent_to(self, replica: Replica, reason: str, look: Look | None) -> Prepared:
        """The request goes to a replica, for a reason; `look` is the index's word on its prompt."""
        assert self.prepared is not None
        self.replica, self.look, self.engine_url = replica, look, replica.client.url
        self.prepared.replica, self.prepared.route_reason = replica.name, reason[:_ROUTE_REASON]
        return self.prepared

    def first_content(self, pieces: int = 1) -> bool:
        """So many pieces of content have come at once; True where the first is among them."""
        now = time.perf_counter()
        if self.ttft_s is None:
            if self.replica is not None:
                self.replica.meter.first_token(self.request_id)
            self.ttft_s = now - self.started
            self._content_at = now
            if self.gaps is not None and pieces > 1:
                self.gaps.observe_burst(0.0, pieces - 1)
            return True
        if self.gaps is not None:
            self.gaps.observe_burst(now - self._content_at, pieces)
            self._content_at = now
        return False

    def elapsed_s(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self.started

    @property
    def was_computed(self) -> bool:
        """Whether an engine did something for it, as far as is known."""
        if self.status is RequestStatus.ERROR:
            return self.usage.prompt_tokens is not None
        return self.replica is not None

    def left_s(self) -> float | None:
        """Seconds until its deadline, perhaps none; None where it has none."""
        return None if self.deadline_s is None else max(0.0, self.deadline_s - self.elapsed_s())

    def failed(self, error: Exception) -> None:
        """The request ends in an error."""
        self.status = RequestStatus.ERROR
        self.error_code = problem_of(error).code

    def row(self) -> LedgerRow:
        """The ledger row, as of now."""
        usage = self.usage
        tiers, prompt_tokens = usage.by_tier, usage.prompt_tokens
        row = LedgerRow(
            request_id=self.request_id,
            at=datetime.now(UTC),
            tenant=self.tenant,
            template=self.template,
            status=self.status,
            collection=self.collection,
            prompt_tokens=prompt_tokens,
            cached_tokens=usage.cached_tokens,
            cached_gpu=tiers.gpu,
            cached_ram=tiers.ram,
            cached_ssd=tiers.ssd,
            cached_redis=tiers.redis,
            cached_storage=tiers.storage,
            completion_tokens=usage.completion_tokens,
            ttft_s=self.ttft_s,
            e2e_s=time.perf_counter() - self.started,
            error_code=self.error_code,
        )
        if (books := self.accounting) is not None:
            row.ideal_tokens, row.predicted_tokens = books.ideal_tokens, books.predicted_tokens
            row.new_tokens, row.cause = books.new_tokens, books.cause
            row.verdict = books.verdict._value_
            lost = row.lost = {}
            for verdict, tokens in books.lost.items():
                lost[verdict._value_] = tokens
            if books.divergence is not None:
                row.divergence = asdict(books.divergence)
        if (prepared := self.prepared) is not None:
            row.template, row.collection = prepared.template, prepared.collection
            row.replica, row.route_reason = prepared.replica, prepared.route_reason
            if prompt_tokens is None and prepared.prompt is not None:
                row.prompt_tokens = prepared.prompt.tokens
            if (mode := prepared.mode) is not None:
                row.mode, row.predicted_ttft_s = mode._value_, predicted_ttft_s(prepared)
            if prepared.mode_reason:
                row.mode_reason = prepared.mode_reason[:_REASON]
            row.notes = prepared.noted()
            row.scaffold, row.prompt_digest = prepared.rendered.fingerprint, prepared.digest
            if self.keeps_text:
                row.prompt_text = prepared.text
        return row

    def block(self) -> JSONObject:
        """The `foreword` object of the response; what isn't known is null."""
        prepared, tiers = self.prepared, self.usage.by_tier
        assert prepared is not None
        books = self.accounting
        if books is not None and Verdict.ISOLATED in books.lost:
            books = for_client(books, prepared.scaffold_tokens)
        asked = {"diagnostics": diagnostics(self.row())} if self.diagnoses else {}
        return {
            "request_id": self.request_id,
            "template": prepared.template,
            "tenant": self.tenant,
            "collection": prepared.collection,
            "mode": prepared.mode,
            "mode_reason": prepared.mode_reason,
            "mode_costs": prepared.decision.costs_json() if prepared.decision else None,
            "predicted_ttft_s": predicted_ttft_s(prepared) if prepared.decision else None,
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
            "verdict": books.verdict._value_ if books else None,
            "cause": books.cause if books else None,
            "divergence": asdict(books.divergence) if books and books.divergence else None,
            "citations": cite(self.spoken.text, prepared.sources) if prepared.sources else [],
            **asked,
            **({} if self.compaction is None else self._compacted(self.compaction)),
            **({"tools": told} if (told := prepared.tools_told()) else {}),
            **({"inherent": lost} if (lost := prepared.inherent_told()) else {}),
        }

    def _compacted(self, compaction: Mapping[str, int | None]) -> JSONObject:
        """What a conversation was shortened from and to, before this turn."""
        prompt, cached = self.usage.prompt_tokens, self.usage.cached_tokens
        lost = None if prompt is None or cached is None else prompt - cached
        told = {**compaction, "tokens_after": prompt, "prefill_lost": lost}
        return {"compaction": told}


@lru_cache
def _below(tiers: tuple[Tier, ...]) -> frozenset[Tier]:
    """Tiers but for the GPU."""
    return frozenset(tiers) - {Tier.GPU}


def predicted_ttft_s(prepared: Prepared | None) -> float | None:
    """What was expected of the time to the first token in the request's mode; None unpriced."""
    if prepared is None or prepared.decision is None or prepared.mode is None:
        return None
    return prepared.decision.predicted_ttft_s(prepared.mode)
