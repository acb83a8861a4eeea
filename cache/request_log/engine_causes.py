"""Losses that are not in the text: salts, prompts below a page, a pool that is too small."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from cache.request_log.groups import Group
from cache.request_log.judge import Analysis
from cache.request_log.options import LogOptions
from cache.request_log.places import log_place
from cache.request_log.replay import Replay, replay
from cache.request_log.table import RequestTable
from prompts.lint.findings import Confidence, Finding, Severity
from prompts.lint.registry import rule
from prompts.shared_length import shared_length

_LEAST_SHARE = 0.02
_LEAST_REQUESTS = 3
_ISOLATED_ON_PURPOSE = 3
_OPENING_SAMPLES = 16
# Questions of no template may start with the same word or two, those of one share more characters.
_LEAST_OPENING = 20
_MOSTLY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFinder:
    """Looks for what the cache itself does to a log that was replayed as it was sent."""

    analysis: Analysis
    sent: Replay
    options: LogOptions

    @property
    def table(self) -> RequestTable:
        """The log's requests."""
        return self.analysis.table

    def findings(self, groups: Sequence[Group], repaired: Replay) -> list[Finding]:
        """Findings of the whole log and of templates that fill no page."""
        found = [self._salts(), self._capacity()]
        found += [self._below_page(group, repaired) for group in groups]
        return [finding for finding in found if finding]

    def _about(self, tokens: int) -> str:
        return f"{'' if self.analysis.measure.exact else '≈'}{tokens:,} tokens"

    def _salts(self) -> Finding | None:
        """What requests with different salts could have shared."""
        salts = [self.table.salt(request) for request in self.table]
        if len(set(salts)) < 2:
            return None
        steps = (self.analysis.step(request)._replace(salt=0) for request in self.table)
        shared = replay(steps, num_requests=len(salts), page_size=self.options.page_size)
        lost = sum(shared.cached) - sum(self.sent.cached)
        if lost < max(self.options.page_size, _LEAST_SHARE * sum(shared.prompt)):
            return None
        each = len(salts) / len(set(salts))
        on_purpose = each > _ISOLATED_ON_PURPOSE
        advice = (
            "that is the price of keeping tenants apart, if they are meant to be"
            if on_purpose
            else "use one salt for all requests of a tenant, not a new one each time"
        )
        return rule("FW701").finding(
            message=(
                f"{len(set(salts)):,} salts split prompts that start alike: {self._about(lost)} "
                f"are computed again in {len(salts):,} requests; {advice}."
            ),
            severity=Severity.NOTE if on_purpose else None,
            place=log_place(self.table, self.options, 0),
        )

    def _below_page(self, group: Group, repaired: Replay) -> Finding | None:
        """Prompts that share an opening which is shorter than one page."""
        requests = group.requests
        if len(requests) < _LEAST_REQUESTS or any(repaired.cached[r] for r in requests):
            return None
        first, *others = [
            self.table.prompt(request)
            for request in requests[:: max(1, len(requests) // _OPENING_SAMPLES)]
        ]
        if not self._open_alike({prompt.messages[0] for prompt in (first, *others)}):
            return None
        shared = min(self.analysis.measure.shared_tokens(first, other) for other in others)
        if shared >= self.options.page_size:
            return None
        return rule("FW302").finding(
            message=(
                f"{len(requests):,} requests share their first {self._about(shared)}, less than "
                f"one page of {self.options.page_size}, so nothing is ever re-used: put more of "
                "what is shared first, or run the engine with smaller pages."
            ),
            place=log_place(self.table, self.options, requests[0]),
            confidence=Confidence.CONFIRMED,
        )

    def _open_alike(self, messages: Set[int]) -> bool:
        """Whether first messages are one, or start with the same few words."""
        if len(messages) == 1:
            return True
        # What the first and the last in order have in common, all have.
        texts = sorted(self.table.store.text(message) for message in messages)
        shared = texts[0][: shared_length(texts[0], texts[-1])]
        return len(shared.strip()) >= _LEAST_OPENING

    def _capacity(self) -> Finding | None:
        """What is lost to eviction: by a given capacity, else by what the engine reported."""
        if self.options.capacity_tokens is not None:
            return self._given_capacity(self.options.capacity_tokens)
        return self._reported_capacity()

    def _given_capacity(self, capacity: int) -> Finding | None:
        page_size = self.options.page_size
        held = self.sent.curve.hit_pages(capacity // page_size) * page_size
        lost = sum(self.sent.cached) - held
        if lost < max(page_size, _LEAST_SHARE * sum(self.sent.prompt)):
            return None
        return rule("FW702").finding(
            message=(
                f"With room for {capacity:,} tokens, {self._about(lost)} that were computed before "
                f"are evicted before they are asked for again; all re-use needs room for "
                f"{self._about(max(self.sent.room))}: give the engine a larger pool or a tier."
            ),
            place=log_place(self.table, self.options, 0),
            confidence=Confidence.CONFIRMED,
        )

    def _reported_capacity(self) -> Finding | None:
        """Requests that need much room missed, those that need little did not."""
        known = [
            (request, cached)
            for request in self.table
            if (cached := self.table.cached_tokens(request)) is not None
            and self.sent.cached[request]
        ]
        missed = [r for r, cached in known if 2 * cached < self.sent.cached[r]]
        kept = [self.sent.room[r] for r, cached in known if 2 * cached >= self.sent.cached[r]]
        if len(missed) < max(_LEAST_REQUESTS, _LEAST_SHARE * len(known)):
            return None
        room = max(kept, default=2 * max(self.sent.prompt))
        far = sum(1 for request in missed if self.sent.room[request] > _MOSTLY * room)
        if far < _MOSTLY * len(missed):
            return None
        lost = sum(self.sent.cached[request] for request in missed)
        return rule("FW702").finding(
            message=(
                f"{len(missed):,} requests were reported to re-use little of {self._about(lost)} "
                f"computed before, all of them after more than {self._about(round(room))} of "
                "other prompts: the pool seems too small; give the engine a larger one or a tier."
            ),
            place=log_place(self.table, self.options, missed[0]),
            confidence=Confidence.SUSPECTED,
        )
