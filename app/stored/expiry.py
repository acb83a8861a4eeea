"""The end of what is stored: by hand, and after its time."""

import time
from collections.abc import Callable
from functools import partial

import anyio
import structlog

from app.deletions import KvDeletions
from app.errors import ConversationNotFoundError
from app.settings import ConversationsSettings
from app.stored.records import Conversation
from app.stored.responses import ResponseStore
from app.stored.store import ConversationStore

_SWEEP_S = 600.0
_DAY_S = 86_400.0


async def delete_conversation(
    store: ConversationStore, deletions: KvDeletions, conversation: Conversation
) -> None:
    """Delete a conversation and all that was said in it; where its KV is kept apart, that too.

    Raises:
        ConversationNotFoundError: it is gone already.
    """
    remove = partial(store.delete, conversation.id, tenant=conversation.tenant)
    if not conversation.isolated:
        await anyio.to_thread.run_sync(remove)
        return
    await deletions.delete_own(conversation.id, tenant=conversation.tenant, remove=remove)


class StoredExpiry:
    """Deletes what nobody used for its time. `now` gives seconds since the epoch."""

    def __init__(
        self,
        settings: ConversationsSettings,
        store: ConversationStore,
        responses: ResponseStore,
        deletions: KvDeletions,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._store = store
        self._responses = responses
        self._deletions = deletions
        self._now = now

    async def watch(self) -> None:
        """For ever."""
        while True:
            await self.sweep()
            await anyio.sleep(_SWEEP_S)

    async def sweep(self) -> None:
        """Delete what is due."""
        days = self._settings.response_days
        if days is not None:
            await anyio.to_thread.run_sync(
                partial(self._responses.expire, before=self._now() - days * _DAY_S)
            )
        if self._settings.days is None:
            return
        before = self._now() - self._settings.days * _DAY_S
        while due := await anyio.to_thread.run_sync(partial(self._store.unused, before=before)):
            for conversation in due:
                try:
                    await delete_conversation(self._store, self._deletions, conversation)
                except ConversationNotFoundError:
                    continue  # another gateway was first
            structlog.get_logger().info("conversations_expired", number=len(due))
