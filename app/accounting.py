"""Accounting beside the requests: what each could have re-used, and why it did not.

It has no part in answering. Whatever goes wrong in it is logged and counted in one place, and the
request goes on.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import anyio
import structlog

from app.accounts import Account
from app.crosscheck import EngineCounters
from app.engine import KvEventsAddress
from app.errors import EngineNotReadyError
from app.kv_events import KvEventFollower, KvEventSource, KvEventsStatus
from app.load_split import split_load
from app.replica import Replica, ReplicaView
from app.settings import Settings
from app.tier_client import TierClient
from app.tier_watch import TierWatch
from cache.accounting import Accountant, EngineRules, Outcome, SentPrompt, pieces_of
from cache.causes import Cause
from cache.prefix_index import PrefixIndex
from cache.rows import RequestStatus
from cache.verdicts import Accounting, Verdict

_RETRY_S = 1.0
_FRESH_S = 1.0
_GUARD_KNOWN_S = 1.5

_UNKNOWN = Accounting(
    ideal_tokens=None,
    predicted_tokens=None,
    verdict=Verdict.UNKNOWN,
    cause=None,
    lost={},
    new_tokens=None,
    divergence=None,
)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Books:
    """What is remembered of one model at one page size; another engine begins with empty ones."""

    of: tuple[str, int]
    index: PrefixIndex
    accountant: Accountant


class RequestAccounting:
    """Tells the accountant what happens to each request, and asks it for the verdict.

    Args:
        key: keeps page hashes from being made up by clients.
        counters: what the guard in the engine says of the tiers.
        client: the tier server that says where a load came from; None: nobody does.
    """

    def __init__(
        self,
        settings: Settings,
        replica: Replica,
        *,
        key: bytes,
        counters: EngineCounters,
        client: TierClient | None = None,
        watch: TierWatch | None = None,
    ) -> None:
        self.errors = 0
        self._settings = settings
        self._replica = replica
        self._key = key
        self._counters = counters
        self._client = client
        self._watch = watch
        self._books: _Books | None = None
        self._tier_instance: str | None = None
        self._follower = KvEventFollower(replica=replica.name, source=self._source)

    @property
    def events(self) -> KvEventsStatus:
        """How well the engine's KV events can be followed."""
        return self._follower.status

    @property
    def index(self) -> PrefixIndex | None:
        """What is believed to be where; None until an engine was met."""
        return self._books.index if self._books else None

    def address(self) -> KvEventsAddress | None:
        """Where the engine's KV events are, as far as known."""
        given = self._settings.engine
        if given.kv_events is not None:
            return KvEventsAddress(events=given.kv_events, replay=given.kv_events_replay)
        try:
            return self._replica.view().info.kv_events
        except EngineNotReadyError:
            return None

    def chunk_tokens(self) -> int | None:
        """Tokens in a chunk of the tiers, as far as known."""
        told = self._watch.chunk_tokens if self._watch else None
        return self._settings.tiers.chunk_tokens or told

    async def follow(self) -> None:
        """Follow the engine's KV events, for ever."""
        while self._settings.accounting.enabled:
            with self._harmless():
                await self._follower.follow()
            await anyio.sleep(_RETRY_S)

    def forget(self, salt: str) -> None:
        """Forget everything under a salt that will never be used again."""
        if self._books is not None:
            with self._harmless():
                self._books.index.forget_salt(salt)
                self._books.accountant.forget_salt(salt)

    def expect(self, account: Account) -> None:
        """A request is about to be sent."""
        if not self._settings.accounting.enabled:
            return
        if account.prepared is None or account.prepared.prompt is None:
            return
        with self._harmless(account):
            view = self._replica.view()
            books = self._books_for(view)
            self._notice_lost_tiers(books)
            account.accountant = books.accountant
            rules = self._rules(view)
            account.expectation = account.accountant.expect(self._sent(account), rules)
            if rules.chunk_tokens is not None:
                # Its answer is on its way by the time that the request is settled.
                self._counters.looks.begin_if_older(_GUARD_KNOWN_S)

    def first_token(self, account: Account) -> None:
        """The first content of its answer has come: its prompt is computed."""
        if account.expectation is not None and account.accountant is not None:
            with self._harmless(account):
                account.first_token_at = time.monotonic()
                account.accountant.first_token(account.expectation, account.first_token_at)

    async def settle(self, account: Account) -> None:
        """A request has ended; does nothing the second time."""
        if account.settled:
            return
        with self._harmless(account):
            account.read_usage()
            if self._client is not None:
                await split_load(
                    self._client, account, within_s=self._settings.accounting.tier_wait_s
                )
        if self._settings.accounting.enabled and account.prepared is not None:
            with self._harmless(account):
                await self._gather_evidence(account)
                await self._ask_the_guard(account)
            with self._harmless(account):
                account.accounting = self._judged(account)
        account.settled = True

    def close(self) -> None:
        self._follower.close()

    def _judged(self, account: Account) -> Accounting:
        accountant, expectation = account.accountant, account.expectation
        if account.prepared is not None and account.prepared.prompt is None:
            return replace(_UNKNOWN, cause=Cause.NO_TOKEN_IDS)
        if accountant is None or expectation is None:
            return _UNKNOWN
        account.expectation = None  # an expectation is settled once, whatever comes of it
        heard_at, sent_at = self.events.heard_at, expectation.prompt.sent_at
        outcome = self._outcome(account, has_heard=heard_at is not None and heard_at >= sent_at)
        return accountant.settle(expectation, outcome)

    async def _gather_evidence(self, account: Account) -> None:
        """Where less was re-used than expected, what explains it may be on its way."""
        cached, expectation = account.usage.cached_tokens, account.expectation
        if expectation is None or cached is None or cached >= expectation.ideal_tokens:
            return
        limits, chunk_tokens = self._settings.accounting, expectation.rules.chunk_tokens
        assert account.accountant is not None
        with anyio.move_on_after(limits.event_wait_s):
            while account.accountant.awaits_events(expectation, cached):
                await self._follower.wait_for_news(limits.event_wait_s)
        short = expectation.ideal_tokens - cached
        if chunk_tokens and short >= chunk_tokens and not account.usage.by_tier.storage:
            # The tiers could have served it: does the guard skip them?
            await self._counters.looks.if_older(_FRESH_S, within_s=limits.tier_wait_s)

    async def _ask_the_guard(self, account: Account) -> None:
        """Whether the engine gave a prompt's chunks to the tiers is known for moments only."""
        expectation = account.expectation
        if expectation is None or account.status is not RequestStatus.OK:
            return
        chunk_tokens = expectation.rules.chunk_tokens
        if chunk_tokens is not None and len(expectation.prompt.token_ids) >= chunk_tokens:
            within_s = self._settings.accounting.tier_wait_s
            await self._counters.looks.if_older(_GUARD_KNOWN_S, within_s=within_s)

    def _sent(self, account: Account) -> SentPrompt:
        prepared = account.prepared
        assert prepared is not None
        prompt = prepared.prompt
        assert prompt is not None
        return SentPrompt(
            request_id=account.request_id,
            template=prepared.template,
            tenant=account.tenant,
            salt=prepared.salt,
            replica=prepared.replica,
            collection=prepared.collection,
            token_ids=prompt.token_ids,
            packed=prompt.packed,
            pieces=pieces_of(prompt),
            scaffold_tokens=prepared.scaffold_tokens,
            sent_at=time.monotonic(),
        )

    def _notice_lost_tiers(self, books: _Books) -> None:
        """A tier server that keeps all in RAM has lost all when it was started anew."""
        status = self._watch.status if self._watch else None
        if status is None or status.instance == self._tier_instance:
            return
        if self._tier_instance is not None and not status.adapters:
            books.index.tiers_cleared()
        self._tier_instance = status.instance

    def _rules(self, view: ReplicaView) -> EngineRules:
        return EngineRules(
            page_tokens=view.info.page_tokens,
            chunk_tokens=self.chunk_tokens() if view.info.tiers else None,
            cache_report=view.info.cache_report,
            kv_events=self.address() is not None,
            tiers_certain=self._watch is not None and self._watch.keeps_all,
        )

    def _outcome(self, account: Account, *, has_heard: bool) -> Outcome:
        return Outcome(
            cached_tokens=account.usage.cached_tokens,
            cached_gpu=account.usage.by_tier.gpu,
            cached_storage=account.usage.by_tier.storage,
            output_ids=account.output_ids,
            first_token_at=account.first_token_at,
            ended_at=time.monotonic(),
            completed=account.status is RequestStatus.OK,
            tiers_skipped=self._counters.guard.tier_open,
            tiers_known=self._counters.knows_guard(within_s=_GUARD_KNOWN_S + _FRESH_S),
            failed=account.status is RequestStatus.ERROR,
            events_heard=has_heard,
        )

    def _books_for(self, view: ReplicaView) -> _Books:
        of = (view.info.model_path, view.info.page_tokens)
        if self._books is None or self._books.of != of:
            limits = self._settings.accounting
            index = PrefixIndex(
                page_tokens=view.info.page_tokens, max_pages=limits.max_pages, key=self._key
            )
            accountant = Accountant(index, max_lineages=limits.max_lineages)
            self._books = _Books(of=of, index=index, accountant=accountant)
        return self._books

    def _source(self) -> KvEventSource | None:
        try:
            view = self._replica.view()
        except EngineNotReadyError:
            return None
        address = self.address()
        if address is None:
            return None
        return KvEventSource(address=address, index=self._books_for(view).index)

    @contextmanager
    def _harmless(self, account: Account | None = None) -> Iterator[None]:
        """The one place where a fault of accounting ends."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - no request may fail for its accounting
            self.errors += 1
            request_id = account.request_id if account else None
            _log.error("accounting_failed", request_id=request_id, exc_info=error)
