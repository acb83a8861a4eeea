"""Deleted KV is never addressed again, and its keys are destroyed though the tiers be away."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
import sqlalchemy

from app.database import open_database
from app.deletions import KvDeletions, read_epochs
from app.salts import Salts
from app.settings import TiersSettings
from app.tables import kv_deletions
from app.tier_client import TierClient
from app.tier_salts import REMEMBERED, SaltKeys
from app.tiers import TierSide
from retrieval import CollectionNotFoundError, Collections, HashingEmbedder
from tests.app.conditions import becomes
from tests.app.tier_server import TierServer, running_tier_server

pytestmark = pytest.mark.anyio

TENANT = "local"
SECRET = b"k" * 32


@dataclass
class Deleting:
    """One gateway's deletions."""

    database: sqlalchemy.Engine
    collections: Collections
    salts: Salts
    deletions: KvDeletions
    forgotten: list[str] = field(default_factory=list)


def side(client: TierClient) -> TierSide:
    return TierSide("", client, TiersSettings())


@contextmanager
def deleting(
    home: Path, tiers: TierClient | None, *, own: SaltKeys | None = None
) -> Iterator[Deleting]:
    database = open_database(home / "foreword.db")
    embedder = HashingEmbedder()
    collections = Collections(database, home / "retrieval", embedder, embedder.count_tokens)
    salts = Salts(SECRET, read_epochs(database))
    forgotten: list[str] = []
    keys = own if tiers is None else SaltKeys(lambda: (side(tiers),), are_own=False)
    deletions = KvDeletions(database, salts, collections, keys, forget=forgotten.append)
    yield Deleting(database, collections, salts, deletions, forgotten)
    database.dispose()


def noted(it: Deleting) -> int:
    with it.database.connect() as connection:
        return len(connection.execute(kv_deletions.select()).all())


@contextmanager
def client(url: str) -> Iterator[TierClient]:
    made = TierClient(url, timeout_s=1.0)
    yield made
    made.close()


async def test_a_deleted_collections_key_is_destroyed(tmp_path: Path) -> None:
    with (
        running_tier_server(TierServer()) as server,
        client(server.url) as tiers,
        deleting(tmp_path, tiers) as it,
    ):
        kept, gone = (it.collections.create(name, tenant=TENANT) for name in ("kept", "gone"))
        salt = it.salts.of(TENANT, gone.id)
        await it.deletions.delete_collection(gone.id, tenant=TENANT)
        assert it.forgotten == [salt]
        await it.deletions.destroy_pending()
        assert server.destroyed == [salt]
        assert it.deletions.pending == 0
        assert [c.id for c in it.collections.list_all(tenant=TENANT)] == [kept.id]
        with pytest.raises(CollectionNotFoundError):
            await it.deletions.delete_collection(gone.id, tenant=TENANT)


async def test_a_tenants_deletion_begins_an_epoch_that_outlives_the_gateway(tmp_path: Path) -> None:
    with running_tier_server(TierServer()) as server, client(server.url) as tiers:
        with deleting(tmp_path, tiers) as it:
            ferry = it.collections.create("ferry", tenant=TENANT).id
            old = {it.salts.of(TENANT), it.salts.of(TENANT, ferry)}
            other = it.salts.of("other")
            assert await it.deletions.delete_tenant(TENANT) == 1
            new = {it.salts.of(TENANT), it.salts.of(TENANT, ferry)}
            assert old.isdisjoint(new)
            assert it.salts.of("other") == other
            assert set(it.forgotten) == old
            await it.deletions.destroy_pending()
            assert set(server.destroyed) == old
        with deleting(tmp_path, tiers) as again:
            assert {again.salts.of(TENANT), again.salts.of(TENANT, ferry)} == new
            assert await again.deletions.delete_tenant(TENANT) == 2


async def test_another_gateway_learns_of_the_epoch(tmp_path: Path) -> None:
    with deleting(tmp_path, None) as one, deleting(tmp_path, None) as other:
        await one.deletions.delete_tenant(TENANT)
        assert other.salts.epoch(TENANT) == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.deletions.work)
            assert await becomes(lambda: other.salts.of(TENANT) == one.salts.of(TENANT))
            tasks.cancel_scope.cancel()
        assert await other.deletions.delete_tenant(TENANT) == 2


async def test_what_could_not_be_destroyed_is_tried_again_after_a_restart(tmp_path: Path) -> None:
    with client("http://127.0.0.1:9") as away, deleting(tmp_path, away) as it:
        salt = it.salts.of(TENANT)
        await it.deletions.delete_tenant(TENANT)
        await it.deletions.destroy_pending()
        assert it.deletions.pending == 1
    with (
        running_tier_server(TierServer()) as server,
        client(server.url) as tiers,
        deleting(tmp_path, tiers) as it,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.deletions.work)
            assert await becomes(lambda: server.destroyed == [salt])
            tasks.cancel_scope.cancel()


async def test_a_crash_before_the_collection_was_gone_destroys_nothing(tmp_path: Path) -> None:
    """Nobody was told that it is deleted, so it must go on to work."""
    with running_tier_server(TierServer()) as server, client(server.url) as tiers:
        with deleting(tmp_path, tiers) as it:
            ferry = it.collections.create("ferry", tenant=TENANT).id
            begun = {"salt": it.salts.of(TENANT, ferry), "collection_id": ferry, "tenant": TENANT}
            with it.database.begin() as connection:
                before = datetime.now(UTC) - timedelta(hours=1)
                connection.execute(kv_deletions.insert().values(requested_at=before, **begun))
        with deleting(tmp_path, tiers) as it:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(it.deletions.work)
                assert await becomes(lambda: noted(it) == 0)
                tasks.cancel_scope.cancel()
            await it.deletions.delete_collection(ferry, tenant=TENANT)
            assert it.deletions.pending == 1
        assert server.destroyed == []


async def test_without_a_tier_server_deletions_wait(tmp_path: Path) -> None:
    with deleting(tmp_path, None) as it:
        await it.deletions.delete_tenant(TENANT)
        await it.deletions.destroy_pending()
        assert it.deletions.pending == 1


async def test_the_newest_deletion_is_told_first(tmp_path: Path) -> None:
    """It isn't to wait until a server that came anew was told of all that there ever was."""
    with (
        running_tier_server(TierServer()) as server,
        client(server.url) as tiers,
        deleting(tmp_path, tiers) as it,
    ):
        now = datetime.now(UTC)
        with it.database.begin() as connection:
            for salt, days in (("a", 1), ("b", 0), ("c", 2)):
                at = now - timedelta(days=days)
                row = {"salt": salt, "tenant": TENANT, "requested_at": at}
                connection.execute(kv_deletions.insert().values(row))
        await it.deletions.destroy_pending()
        assert server.destroyed == ["b", "a", "c"]


async def test_what_is_remembered_is_read_at_once(tmp_path: Path) -> None:
    """It stays for months, and is looked at twice a minute."""
    with deleting(tmp_path, None, own=SaltKeys(list, are_own=True)) as it:
        for number in range(3):
            made = it.collections.create(f"c{number}", tenant=TENANT)
            await it.deletions.delete_collection(made.id, tenant=TENANT)
        asked: list[str] = []

        def note(*call: object) -> None:
            asked.append(str(call[2]))

        sqlalchemy.event.listen(it.database, "before_cursor_execute", note)
        await it.deletions.destroy_pending()
        assert len(asked) == 1
        assert it.deletions.pending == 3


async def test_where_no_replica_has_tiers_nothing_is_pending_and_nothing_forgotten(
    tmp_path: Path,
) -> None:
    nobody = SaltKeys(list, are_own=True, has_none=lambda: True)
    with deleting(tmp_path, None, own=nobody) as it:
        await it.deletions.delete_tenant(TENANT)
        await it.deletions.destroy_pending()
        assert (it.deletions.pending, noted(it)) == (0, 1)


async def test_a_deletion_waits_for_a_server_of_a_replicas_own_no_longer_than_is_remembered(
    tmp_path: Path,
) -> None:
    with deleting(tmp_path, None, own=SaltKeys(list, are_own=True)) as it:
        await it.deletions.delete_tenant(TENANT)
        await it.deletions.destroy_pending()
        assert (it.deletions.pending, noted(it)) == (1, 1)
        long_ago = datetime.now(UTC) - REMEMBERED - timedelta(days=1)
        with it.database.begin() as connection:
            connection.execute(kv_deletions.update().values(requested_at=long_ago))
        await it.deletions.destroy_pending()
        assert (it.deletions.pending, noted(it)) == (0, 0)
