"""Accounting beside the requests: what each could have re-used, and why it did not.

It has no part in answering. Whatever goes wrong in it is logged and counted in one place, and the
request goes on.
"""

import time
from array import array

import anyio
from msgspec.structs import replace

from app.accounting_guard import Guard
from app.accounting_rules import KnownRules
from app.accounts import Account
from app.books import BookShelf
from app.load_split import split_load
from app.settings import Settings
from cache.accounting import Outcome, SentPrompt, pieces_of
from cache.causes import Cause
from cache.prefix_index import PrefixIndex
from cache.rows import RequestStatus
from cache.verdicts import Accounting, Verdict

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


class RequestAccounting:
    """Tells the accountant what happens to each request, and asks it for the verdict."""

    def __init__(self, settings: Settings, shelf: BookShelf) -> None:
        self._guard = Guard()
        self._settings = settings
        self._shelf = shelf
        self._known_rules = KnownRules()

    @property
    def errors(self) -> int:
        """How often something went wrong in it."""
        return self._guard.faults

    @property
    def index(self) -> PrefixIndex | None:
        """What is believed to be where; None until an engine was met."""
        books = self._shelf.current
        return None if books is None else books.index

    def forget(self, salt: str) -> None:
        """Forget everything under a salt that will never be used again."""
        books = self._shelf.current
        if books is not None:
            with self._guard.harmless(None):
                books.index.forget_salt(salt)
                books.accountant.forget_salt(salt)

    def forget_replica(self, name: str) -> None:
        """It is no replica any more; the index is told by the fleet."""
        self._known_rules.forget(name)

    def forget_tiers(self, name: str) -> None:
        """Tiers of this name have lost all that they were given; shared ones have none."""
        if self.index is not None:
            with self._guard.harmless(None):
                self.index.tiers_cleared(name)

    def expect(self, account: Account) -> None:
        """A request is about to be sent to its replica."""
        if self._settings.accounting.enabled:
            self._guard.run(self._expect, account, account.request_id)

    def _expect(self, account: Account) -> None:
        prepared, replica = account.prepared, account.replica
        if prepared is None or replica is None or (prompt := prepared.prompt) is None:
            return
        if replica.removed:  # between its choice and now
            return
        view, tier = replica.view(), replica.tier
        books, watch = self._shelf.of(view), tier.watch
        account.accountant = books.accountant
        rules = self._known_rules.of(
            replica,
            view,
            tier.chunk_tokens(),
            tiers_certain=watch is not None and watch.keeps_all,
        )
        look, keys, match = account.look, None, None
        if look is not None and look.index is books.index:
            at, keys, match = look.at, look.keys, look.match
        else:
            at = time.monotonic()
        sent = SentPrompt(
            request_id=account.request_id,
            template=prepared.template,
            tenant=account.tenant,
            salt=prepared.salt,
            replica=replica.name,
            collection=prepared.collection,
            packed=prompt.packed or array("I", prompt.token_ids).tobytes(),
            opening=b"" if prompt.stem is None else prompt.stem.packed,
            pieces=pieces_of(prompt),
            sent_at=at,
        )
        account.expectation = books.accountant.expect(sent, rules, keys=keys, match=match)
        if rules.chunk_tokens is not None:
            # Its answer is on its way by the time that the request is settled.
            replica.counters.looks.begin_if_older(_GUARD_KNOWN_S)

    def withdraw(self, account: Account) -> None:
        """The replica didn't take it: it is about to be sent to another."""
        if account.expectation is not None and account.accountant is not None:
            with self._guard.harmless(account.request_id):
                account.accountant.withdraw(account.expectation)
        account.expectation = None

    def first_token(self, account: Account) -> None:
        """The first content of its answer has come: its prompt is computed."""
        if _teaches(account):
            self._guard.run(self._began, account, account.request_id)

    def _began(self, account: Account) -> None:
        assert account.accountant is not None
        assert account.expectation is not None
        at = account.first_token_at = time.monotonic()
        account.accountant.first_token(account.expectation, at)

    def settled_at_once(self, account: Account) -> bool:
        """A request has ended; False where something is to be waited for, which `settle` does."""
        if account.settled:
            return True
        if account.replica is not None and account.replica.tier.client is not None:
            return False
        self._guard.run(Account.read_usage, account, account.request_id)
        if self._settings.accounting.enabled and account.prepared is not None:
            # Evidence may be on its way, or the guard must be asked.
            expectation, cached = account.expectation, account.usage.cached_tokens
            if expectation is not None:
                if cached is not None and cached < expectation.ideal_tokens:
                    return False
                if (
                    expectation.rules.chunk_tokens is not None
                    and account.status is RequestStatus.OK
                ):
                    return False
            account.accounting = self._guard.run(self._judged, account, account.request_id)
        account.settled = True
        return True

    async def settle(self, account: Account) -> None:
        """A request has ended; does nothing the second time."""
        if account.settled:
            return
        with self._guard.harmless(account.request_id):
            account.read_usage()
            client = account.replica.tier.client if account.replica is not None else None
            if client is not None:
                await split_load(client, account, within_s=self._settings.accounting.tier_wait_s)
        if self._settings.accounting.enabled and account.prepared is not None:
            if _teaches(account):
                with self._guard.harmless(account.request_id):
                    await self._gather_evidence(account)
                    await self._ask_the_guard(account)
            account.accounting = self._guard.run(self._judged, account, account.request_id)
        account.settled = True

    def _judged(self, account: Account) -> Accounting:
        accountant, expectation = account.accountant, account.expectation
        if account.prepared is not None and account.prepared.prompt is None:
            return replace(_UNKNOWN, cause=Cause.NO_TOKEN_IDS)
        if accountant is None or expectation is None:
            return _UNKNOWN
        account.expectation = None  # an expectation is settled once, whatever comes of it
        replica, usage = account.replica, account.usage
        assert replica is not None
        if replica.removed:
            accountant.withdraw(expectation)
            return _UNKNOWN
        counters, heard_at = replica.counters, replica.events.status.heard_at
        outcome = Outcome(
            cached_tokens=usage.cached_tokens,
            cached_gpu=usage.by_tier.gpu,
            cached_storage=usage.by_tier.storage,
            output_ids=account.output_ids,
            first_token_at=account.first_token_at,
            ended_at=time.monotonic(),
            completed=account.status is RequestStatus.OK,
            tiers_skipped=counters.guard.tier_open,
            tiers_known=counters.knows_guard(within_s=_GUARD_KNOWN_S + _FRESH_S),
            failed=account.status is RequestStatus.ERROR,
            events_heard=heard_at is not None and heard_at >= expectation.prompt.sent_at,
        )
        return accountant.settle(expectation, outcome)

    async def _gather_evidence(self, account: Account) -> None:
        """Where less was re-used than expected, what explains it may be on its way."""
        cached, expectation = account.usage.cached_tokens, account.expectation
        if expectation is None or cached is None or cached >= expectation.ideal_tokens:
            return
        limits, chunk_tokens = self._settings.accounting, expectation.rules.chunk_tokens
        assert account.accountant is not None
        assert account.replica is not None
        with anyio.move_on_after(limits.event_wait_s):
            while _teaches(account) and account.accountant.awaits_events(expectation, cached):
                await account.replica.events.wait_for_news(limits.event_wait_s)
        short = expectation.ideal_tokens - cached
        if chunk_tokens and short >= chunk_tokens and not account.usage.by_tier.storage:
            # The tiers could have served it: does the guard skip them?
            looks = account.replica.counters.looks
            await looks.if_older(_FRESH_S, within_s=limits.tier_wait_s)

    async def _ask_the_guard(self, account: Account) -> None:
        """Whether the engine gave a prompt's chunks to the tiers is known for moments only."""
        expectation = account.expectation
        if expectation is None or account.status is not RequestStatus.OK:
            return
        assert account.replica is not None
        chunk_tokens = expectation.rules.chunk_tokens
        if chunk_tokens is not None and expectation.tokens >= chunk_tokens:
            within_s = self._settings.accounting.tier_wait_s
            await account.replica.counters.looks.if_older(_GUARD_KNOWN_S, within_s=within_s)


def _teaches(account: Account) -> bool:
    """Whether something is expected of it, and its replica is still one.

    The index has forgotten one that was removed: nothing that ends there late may bring it back.
    """
    if account.expectation is None or account.accountant is None:
        return False
    return account.replica is not None and not account.replica.removed
