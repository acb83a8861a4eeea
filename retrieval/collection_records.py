"""Collections' own records: made, described, found, put to sleep. What they hold is elsewhere."""

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from sqlalchemy import Engine

from retrieval import store
from retrieval.embed import Embedder
from retrieval.errors import (
    AmbiguousCollectionError,
    CollectionExpiredError,
    CollectionNotFoundError,
    IndexManifestError,
    StorageError,
)
from retrieval.record_checks import (
    checked_expiry,
    checked_metadata,
    checked_mode,
    checked_name,
)
from retrieval.records import UNSET, Collection, CollectionSize, CollectionStatus, Unset
from retrieval.transactions import transaction

# So that a collection that is asked all the time isn't written all the time.
_TOUCH_EVERY_S = 60


class CollectionRecords:
    """The part of `Collections` that needs neither files nor indexes."""

    def __init__(
        self, engine: Engine, embedder: Embedder, *, now: Callable[[], float] = time.time
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._now = now

    def create(
        self,
        name: str,
        *,
        tenant: str,
        metadata: Mapping[str, str] | None = None,
        expires_after_days: int | None = None,
        mode: str | None = None,
        priority: int = 0,
    ) -> Collection:
        """A new, empty collection. Names need not be unique.

        Args:
            expires_after_days: without activity; then it answers no more, and is removed 30 days
                later.
            mode: auto, rag, cag or hybrid; what questions to it are pinned to.

        Raises:
            InvalidCollectionError: something is longer, more or other than can be stored.
        """
        now = int(self._now())
        collection = Collection(
            id=f"vs_{secrets.token_hex(12)}",
            tenant=tenant,
            name=checked_name(name),
            embedder=self._embedder.id,
            dimension=self._embedder.dimension,
            revision=0,
            created_at=now,
            metadata=checked_metadata(metadata or {}),
            expires_after_days=checked_expiry(expires_after_days),
            last_active_at=now,
            mode=checked_mode(mode),
            priority=priority,
        )
        with transaction(self._engine) as connection:
            store.insert_collection(connection, collection)
        return collection

    def modify(
        self,
        collection_id: str,
        *,
        tenant: str,
        name: str | Unset = UNSET,
        metadata: Mapping[str, str] | Unset = UNSET,
        expires_after_days: int | Unset | None = UNSET,
        mode: str | Unset | None = UNSET,
        priority: int | Unset = UNSET,
    ) -> Collection:
        """Describes a collection anew; what isn't named stays. Its documents stay as they are.

        An expired collection is had back by giving `expires_after_days`, the old one too.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
            CollectionExpiredError: it has expired, and no expiry is given.
            InvalidCollectionError: something is longer, more or other than can be stored.
        """
        values: dict[str, object] = {"last_active_at": int(self._now())}
        if not isinstance(name, Unset):
            values["name"] = checked_name(name)
        if not isinstance(metadata, Unset):
            values["metadata"] = checked_metadata(metadata)
        if not isinstance(expires_after_days, Unset):
            values["expires_after_days"] = checked_expiry(expires_after_days)
        else:
            self._active(collection_id, tenant)
        if not isinstance(mode, Unset):
            values["mode"] = checked_mode(mode)
        if not isinstance(priority, Unset):
            values["priority"] = priority
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant, self._now())
            store.update_collection(connection, collection_id, **values)
            return store.select_collection(connection, collection_id, tenant, self._now())

    def touch(self, collection_id: str, *, tenant: str) -> Collection:
        """Says that a collection is in use, which puts its expiry off.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
            CollectionExpiredError: it is too late.
        """
        collection = self._active(collection_id, tenant)
        now = int(self._now())
        if now - collection.last_active_at >= _TOUCH_EVERY_S:
            # Whoever asks must not fail because a clock could not be put forward.
            with suppress(StorageError), transaction(self._engine) as connection:
                store.update_collection(connection, collection_id, last_active_at=now)
        return collection

    def overdue(self, now: float) -> list[Collection]:
        """All tenants' collections that expired so long ago that they are to be deleted."""
        with transaction(self._engine) as connection:
            expiring = store.select_expiring(connection, now)
        return [c for c in expiring if c.removed_at is not None and c.removed_at <= now]

    def get(self, collection_id: str, *, tenant: str) -> Collection:
        """One collection, an expired one too.

        Raises:
            CollectionNotFoundError: there is none with this id for this tenant.
        """
        with transaction(self._engine) as connection:
            return store.select_collection(connection, collection_id, tenant, self._now())

    def resolve(self, name_or_id: str, *, tenant: str) -> Collection:
        """The collection with this id, else the one with this name.

        Raises:
            CollectionNotFoundError: neither.
            AmbiguousCollectionError: several have the name.
        """
        owned = self.list_all(tenant=tenant)
        matches = [c for c in owned if c.id == name_or_id]
        matches = matches or [c for c in owned if c.name == name_or_id]
        if not matches:
            raise CollectionNotFoundError(name_or_id)
        if len(matches) > 1:
            raise AmbiguousCollectionError(name_or_id, [c.id for c in matches])
        return matches[0]

    def list_all(self, *, tenant: str) -> list[Collection]:
        """A tenant's collections, oldest first, expired ones included."""
        with transaction(self._engine) as connection:
            return store.select_collections(connection, tenant, self._now())

    def has_any(self) -> bool:
        """Whether any tenant has a collection."""
        with transaction(self._engine) as connection:
            return store.has_collections(connection)

    def size(self, collection_id: str, *, tenant: str) -> CollectionSize:
        """How much a collection holds."""
        with transaction(self._engine) as connection:
            store.select_collection(connection, collection_id, tenant, self._now())
            return store.collection_size(connection, collection_id)

    def _active(self, collection_id: str, tenant: str) -> Collection:
        return check_active(self.get(collection_id, tenant=tenant))


def check_active(collection: Collection) -> Collection:
    """Raises CollectionExpiredError: its time was over when it was read."""
    if collection.status is CollectionStatus.EXPIRED:
        assert collection.expires_at is not None
        assert collection.removed_at is not None
        raise CollectionExpiredError(collection.id, collection.expires_at, collection.removed_at)
    return collection


def check_embedder(collection: Collection, embedder: Embedder) -> None:
    """Refuses to compare vectors of two models.

    Raises:
        IndexManifestError: the collection was made with another embedder.
    """
    if collection.embedder != embedder.id:
        raise IndexManifestError("embedder", embedder.id, collection.embedder)
