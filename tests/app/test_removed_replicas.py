"""Answers that end after their replica was removed: nothing of them brings it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.accounting import RequestAccounting
from app.accounting_rules import KnownRules
from app.accounts import Account
from app.books import BookShelf
from app.engine import EngineClient, EngineInfo
from app.fleet.opening import open_fleet
from app.parity import Parity
from app.prepared import Prepared
from app.replica import Replica
from app.replica_view import ReplicaView
from app.settings import TiersSettings
from app.tiers import TierSide
from app.upstream import Timeouts, Upstream
from cache.prefix_index import PrefixIndex
from cache.prefix_match import Match
from cache.rows import RequestStatus
from prompts import Prompt, TokenizedPrompt
from tests.gateways import gateway_settings

pytestmark = pytest.mark.anyio

IDS = tuple(range(1, 42))
VIEW = ReplicaView(
    info=EngineInfo(
        model_path="m",
        tokenizer_path="m",
        served_name="m",
        context_tokens=4096,
        page_tokens=4,
        pool_tokens=None,
        cache_report=True,
        tiers=True,
        version="",
    ),
    tokenizer=None,
    parity=Parity(ok=True),
)


class Met(Replica):
    """One that was met."""

    def view(self) -> ReplicaView:
        return VIEW


@contextmanager
def met() -> Iterator[Replica]:
    timeouts = Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1)
    client = EngineClient(Upstream("http://127.0.0.1:9", timeouts=timeouts, max_connections=1))
    tier = TierSide("engine-0", None, TiersSettings(chunk_tokens=8))
    replica = Met("engine-0", client, tokenizer_folder=None, tier=tier)
    yield replica
    replica.close()


@pytest.fixture
def accounting(tmp_path: Path) -> RequestAccounting:
    settings = gateway_settings(tmp_path, "http://127.0.0.1:9")
    return RequestAccounting(settings, BookShelf(settings.accounting, key=b"k" * 32))


def asked(replica: Replica) -> Account:
    rendered = Prompt(template="chat@1", segments=())
    prepared = Prepared(
        request_id="chatcmpl-1",
        tenant="local",
        salt="salt",
        model="tiny",
        template="chat@1",
        body={},
        labels={},
        rendered=rendered,
        prompt=TokenizedPrompt(prompt=rendered, token_ids=IDS, ranges=()),
    )
    account = Account(request_id="chatcmpl-1", tenant="local", prepared=prepared)
    account.sent_to(replica, "only replica", None)
    return account


def known(index: PrefixIndex | None) -> Match:
    assert index is not None
    return index.match(index.keys(IDS), salt="salt", sent_at=float("inf"))


@pytest.mark.parametrize("began", [False, True])
async def test_an_answer_that_ends_late_teaches_nothing(
    accounting: RequestAccounting, began: bool
) -> None:
    with met() as replica:
        account = asked(replica)
        accounting.expect(account)
        if began:
            accounting.first_token(account)
        assert accounting.index is not None
        assert known(accounting.index).replicas
        replica.removed = True
        accounting.index.forget_replica(replica.name)
        accounting.first_token(account)
        details = {"cached_tokens": 0}
        account.learn({"usage": {"prompt_tokens": len(IDS), "prompt_tokens_details": details}})
        account.status = RequestStatus.OK
        await accounting.settle(account)
        assert known(accounting.index) == Match()
        assert (accounting.errors, account.row().verdict) == (0, "unknown")


async def test_a_request_that_is_sent_late_teaches_nothing(accounting: RequestAccounting) -> None:
    with met() as replica:
        accounting.expect(asked(replica))
        assert accounting.index is not None
        accounting.index.forget_replica(replica.name)
        replica.removed = True
        accounting.expect(asked(replica))
        assert known(accounting.index) == Match()


async def test_rules_of_a_replica_that_is_gone_are_not_kept() -> None:
    with met() as replica:
        rules = KnownRules()

        def told() -> object:
            return rules.of(replica, VIEW, 8, tiers_certain=True)

        first = told()
        assert told() is first
        rules.forget(replica.name)
        assert told() is not first


async def test_who_keeps_something_by_name_is_told_of_a_removal(tmp_path: Path) -> None:
    settings, gone = gateway_settings(tmp_path, "http://127.0.0.1:9"), list[str]()
    shelf = BookShelf(settings.accounting, key=b"key")
    fleet = open_fleet(settings, shelf, on_remove=gone.append)
    replica = await fleet.add("http://127.0.0.2:30000", name="blue")
    assert not replica.removed
    fleet.remove("blue")
    assert replica.removed
    assert gone == ["blue"]
    fleet.close()
