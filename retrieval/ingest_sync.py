"""Incremental re-ingest: a collection's files by name, made equal to what is given.

An unchanged file costs a comparison, a changed one the embedding of its changed passages. Its old
document goes in the transaction that brings the new one, which stands at the collection's end: what
changes often gathers there, where a change costs the prefix cache least.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlalchemy import Engine

from retrieval import held_store, store
from retrieval.errors import (
    FileTooLargeError,
    InvalidCollectionError,
)
from retrieval.files import SYNC_PURPOSE, Files
from retrieval.ingest import Ingester
from retrieval.ingest_wish import Wish
from retrieval.records import FileError, FileStatus, SyncResult
from retrieval.transactions import transaction
from retrieval.vault import bytes_digest


@dataclass(slots=True)
class _Outcome:
    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: dict[str, FileError] = field(default_factory=dict)
    embedded: int = 0
    reused: int = 0

    def result(self) -> SyncResult:
        return SyncResult(
            added=tuple(self.added),
            replaced=tuple(self.replaced),
            unchanged=tuple(self.unchanged),
            removed=tuple(self.removed),
            failed=self.failed,
            embedded_chunks=self.embedded,
            reused_chunks=self.reused,
        )


class Synchroniser:
    """Syncs collections. Safe for several threads; each file is a transaction of its own."""

    def __init__(self, engine: Engine, files: Files, ingester: Ingester) -> None:
        self._engine = engine
        self._files = files
        self._ingester = ingester

    def sync(
        self,
        collection_id: str,
        files: Iterable[tuple[str, bytes]],
        *,
        tenant: str,
        wish: Wish,
        remove_missing: bool,
        keep: Iterable[str] = (),
    ) -> SyncResult:
        """See `Collections.sync`."""
        outcome = _Outcome()
        seen: dict[str, str] = {}
        for name, data in files:
            digest = bytes_digest(data)
            if seen.setdefault(name, digest) != digest:
                raise InvalidCollectionError(
                    "files", f"{name!r} is given twice with different content"
                )
            self._sync_file(collection_id, name, data, tenant, wish, outcome)
        if remove_missing:
            outcome.removed += self._remove_others(collection_id, tenant, {*seen, *keep})
        return outcome.result()

    def _sync_file(
        self,
        collection_id: str,
        name: str,
        data: bytes,
        tenant: str,
        wish: Wish,
        outcome: _Outcome,
    ) -> None:
        if self._is_unchanged(collection_id, name, bytes_digest(data), wish):
            if name not in outcome.unchanged:
                outcome.unchanged.append(name)
            return
        try:
            stored = self._files.save(name, data, SYNC_PURPOSE, tenant=tenant)
        except FileTooLargeError as error:
            outcome.failed[name] = FileError(code="file_too_large", message=str(error))
            return
        ingested = self._ingester.add_file(
            collection_id, stored.id, tenant=tenant, wish=replace(wish, supersedes=True)
        )
        outcome.embedded += ingested.embedded
        outcome.reused += ingested.reused
        if ingested.file.last_error is not None:
            outcome.failed[name] = ingested.file.last_error
        else:
            (outcome.replaced if ingested.superseded else outcome.added).append(name)
        self._files.discard_synced(ingested.superseded, tenant=tenant)

    def _is_unchanged(self, collection_id: str, name: str, digest: str, wish: Wish) -> bool:
        """Whether the collection has these bytes as the only file of the name."""
        with transaction(self._engine) as connection:
            held = held_store.select_held_digests(connection, collection_id, name)
            if len(held) != 1 or next(iter(held.values())) != digest:
                return False
            known = held_store.find_collection_file(connection, collection_id, next(iter(held)))
        if known is None or known.status is not FileStatus.COMPLETED:
            return False
        self._ingester.describe(known, wish)
        return True

    def _remove_others(self, collection_id: str, tenant: str, kept: set[str]) -> list[str]:
        with transaction(self._engine) as connection:
            store.lock(connection, collection_id)
            held = held_store.select_held_names(connection, collection_id)
            others = {file_id: name for file_id, name in held.items() if name not in kept}
            if others:
                store.claim(connection, collection_id)
            for file_id in others:
                held_store.remove_from_collection(connection, collection_id, file_id)
        self._files.discard_synced(list(others), tenant=tenant)
        return list(dict.fromkeys(others.values()))
