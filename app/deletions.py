"""Deleted KV: never addressed again at once, and its keys destroyed as soon as the tiers answer.

A tenant's KV goes by a new epoch of its salts, a collection's with the collection itself. What lies
in the tiers under the old salts can't be read once the salts' keys are destroyed there. That is
written down first, so that neither a crash nor a tier server that is away makes it forgotten.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import sqlalchemy as sa
import structlog

from app.salts import Salts
from app.tables import conversations, kv_deletions, tenant_epochs
from app.tier_salts import REMEMBERED, SaltKeys, may_forget
from retrieval import Collections
from retrieval.tables import collections

_RETRY_S = 30.0
# A deletion that hasn't come to its end by then never will: its gateway is no more.
_UNFINISHED = timedelta(minutes=1)

# Each with its collection, where that is still there.
_noted = sa.select(kv_deletions.c.salt, kv_deletions.c.requested_at).select_from(
    kv_deletions.outerjoin(
        collections,
        sa.and_(
            collections.c.id == kv_deletions.c.collection_id,
            collections.c.tenant == kv_deletions.c.tenant,
        ),
    )
)


class KvDeletions:
    """Keeps what is to be destroyed in the database, and destroys it.

    `forget` is told each salt that will never be used again. Without `keys` nothing is destroyed.

    Attributes:
        pending: salts that some tier server is still to be told of.
        problem: why, where a server is the reason.
    """

    def __init__(
        self,
        database: sa.Engine,
        salts: Salts,
        collections: Collections,
        keys: SaltKeys | None,
        *,
        forget: Callable[[str], None],
    ) -> None:
        self._database = database
        self._salts = salts
        self._collections = collections
        self._keys = keys
        self._forget = forget
        self._due = anyio.Event()
        self._destroying = anyio.Lock()
        self.pending = 0
        self.problem: str | None = None
        self._log = structlog.get_logger()

    async def delete_tenant(self, tenant: str) -> int:
        """Begin the tenant's next epoch; returns its number. All KV of before is lost to it."""
        try:
            salts, epoch = await anyio.to_thread.run_sync(self._write_tenant, tenant)
        except sa.exc.IntegrityError:  # another was a moment earlier: this one is the next
            salts, epoch = await anyio.to_thread.run_sync(self._write_tenant, tenant)
        self._salts.begin_epoch(tenant, epoch)
        await self._gone(salts)
        return epoch

    async def delete_collection(self, collection_id: str, *, tenant: str) -> None:
        """Delete a collection, and its KV with it.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """

        def delete() -> str:
            self._learn_epochs()
            salt = self._salts.of(tenant, collection_id)
            self._collections.get(collection_id, tenant=tenant)
            self._write([salt], tenant, collection_id)
            self._collections.delete(collection_id, tenant=tenant)
            return salt

        await self._gone([await anyio.to_thread.run_sync(delete)])

    async def delete_own(
        self,
        conversation_id: str,
        *,
        tenant: str,
        remove: "Callable[..., None]",
    ) -> None:
        """Delete a conversation whose KV lies under a salt of its own, and that KV with it.

        `remove` takes the conversation out of the database, and does `also` in one with that.
        """

        def delete() -> str:
            self._learn_epochs()
            salt = self._salts.of(tenant, conversation_id)
            remove(also=lambda connection: _insert(connection, [salt], tenant, None))
            return salt

        await self._gone([await anyio.to_thread.run_sync(delete)])

    async def work(self) -> None:
        """Destroy what is due, for ever."""
        begun = False
        while True:
            self._due = anyio.Event()
            try:
                if not begun:
                    await anyio.to_thread.run_sync(self._drop_unfinished)
                    begun = True
                await anyio.to_thread.run_sync(self._learn_epochs)
                await self.destroy_pending()
            except sa.exc.SQLAlchemyError as error:
                self._log.warning("kv_deletions_unreadable", problem=type(error).__name__)
            with anyio.move_on_after(_RETRY_S):
                await self._due.wait()

    async def destroy_pending(self) -> None:
        """Destroy the keys of all salts that are due, as far as the tiers answer."""
        async with self._destroying:
            noted = await anyio.to_thread.run_sync(self._read)
            if self._keys is None:
                self.pending = len(noted)
                return
            trial, are_own = self._keys.round(), self._keys.are_own
            due = [salt for salt, _ in noted if not trial.is_done(salt)]
            self.pending, waiting = len(due), set(due)
            for salt in due:
                if trial.can_tell(salt) and await trial.destroy(salt):
                    waiting.discard(salt)
                    self.pending -= 1
                    if not are_own:
                        await anyio.to_thread.run_sync(self._done, salt)
            for salt, at in noted if are_own else ():
                if may_forget(at):
                    await anyio.to_thread.run_sync(self._done, salt)
                    if salt in waiting:
                        self.pending -= 1
                        self._log.warning("kv_deletion_given_up", days=REMEMBERED.days)
            self.problem = trial.problem
            if trial.problem is not None:
                self._log.warning("kv_deletion_waits", pending=self.pending, problem=trial.problem)

    async def _gone(self, salts: Sequence[str]) -> None:
        self.pending += len(salts)
        self._due.set()
        for salt in salts:
            self._forget(salt)
            # A tenant may have hundreds of collections, and requests go on meanwhile.
            await anyio.lowlevel.checkpoint()

    def _learn_epochs(self) -> None:
        """Another gateway on this database may have begun one."""
        for tenant, epoch in read_epochs(self._database).items():
            self._salts.begin_epoch(tenant, epoch)

    def _write_tenant(self, tenant: str) -> tuple[list[str], int]:
        self._learn_epochs()
        owned = [c.id for c in self._collections.list_all(tenant=tenant)]
        owned += self._isolated(tenant)
        salts = [self._salts.of(tenant, whose) for whose in (None, *owned)]
        epoch = self._salts.epoch(tenant) + 1
        with self._database.begin() as connection:
            connection.execute(sa.delete(tenant_epochs).where(tenant_epochs.c.tenant == tenant))
            connection.execute(sa.insert(tenant_epochs).values(tenant=tenant, epoch=epoch))
            _insert(connection, salts, tenant, None)
        return salts, epoch

    def _isolated(self, tenant: str) -> list[str]:
        """Conversations whose KV lies under a salt of their own."""
        found = sa.select(conversations.c.id, conversations.c.options)
        with self._database.connect() as connection:
            rows = connection.execute(found.where(conversations.c.tenant == tenant)).all()
        return [row.id for row in rows if row.options.get("isolated")]

    def _write(self, salts: Sequence[str], tenant: str, collection_id: str | None) -> None:
        with self._database.begin() as connection:
            _insert(connection, salts, tenant, collection_id)

    def _read(self) -> list[tuple[str, datetime]]:
        """The newest first: it isn't to wait until a server that came anew was told of all."""
        due = _noted.where(collections.c.id.is_(None)).order_by(kv_deletions.c.requested_at.desc())
        with self._database.connect() as connection:
            return [(row.salt, row.requested_at) for row in connection.execute(due)]

    def _drop_unfinished(self) -> None:
        """Forget deletions that ended before their collection was gone: nobody was told of them."""
        old = kv_deletions.c.requested_at < datetime.now(UTC) - _UNFINISHED
        with self._database.begin() as connection:
            still_there = _noted.where(old, collections.c.id.is_not(None))
            for row in connection.execute(still_there).all():
                connection.execute(_of(row.salt))

    def _done(self, salt: str) -> None:
        with self._database.begin() as connection:
            connection.execute(_of(salt))


def read_epochs(database: sa.Engine) -> dict[str, int]:
    """The epoch of each tenant whose KV was ever deleted."""
    with database.connect() as connection:
        rows = connection.execute(sa.select(tenant_epochs)).all()
    return {row.tenant: row.epoch for row in rows}


def _insert(
    connection: sa.Connection, salts: Sequence[str], tenant: str, collection_id: str | None
) -> None:
    """Note salts as due; one that is noted already is noted anew."""
    now = datetime.now(UTC)
    connection.execute(sa.delete(kv_deletions).where(kv_deletions.c.salt.in_(salts)))
    about = {"tenant": tenant, "collection_id": collection_id, "requested_at": now}
    connection.execute(sa.insert(kv_deletions), [{"salt": salt, **about} for salt in salts])


def _of(salt: str) -> sa.Delete:
    return sa.delete(kv_deletions).where(kv_deletions.c.salt == salt)
