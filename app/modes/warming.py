"""Corpora that are warmed beside the requests: what is too long for one question to wait for."""

import time
from collections.abc import Callable

import structlog
from anyio.abc import TaskGroup

from app.corpora import Corpora
from app.errors import GatewayError
from prompts import PromptError
from retrieval import Collection, RetrievalError

# A corpus that was warmed and still isn't known to be there isn't warmed again at once.
_AGAIN_S = 300.0


class WarmingAside:
    """Warms each wanted corpus once; those that are asked meanwhile are answered by retrieval."""

    def __init__(
        self,
        corpora: Corpora,
        *,
        longest_wait_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._corpora = corpora
        self._longest_wait_s = longest_wait_s
        self._clock = clock
        self._wanted: dict[str, Collection] = {}
        self._running: set[str] = set()
        self._done_at: dict[str, tuple[int, float]] = {}
        self._log = structlog.get_logger()

    def takes_over(self, collection: Collection, *, warm_s: float) -> bool:
        """Whether the corpus is warmed aside, so that this question shouldn't wait for it."""
        if warm_s <= self._longest_wait_s:
            return False
        if collection.id in self._running or collection.id in self._wanted:
            return True
        revision, at = self._done_at.get(collection.id, (-1, 0.0))
        if revision == collection.revision and self._clock() - at < _AGAIN_S:
            return False
        self._wanted[collection.id] = collection
        return True

    def start(self, tasks: TaskGroup) -> None:
        """Begin what is wanted."""
        while self._wanted:
            collection_id, collection = self._wanted.popitem()
            self._running.add(collection_id)
            tasks.start_soon(self._warm, collection)

    def forget(self, collection_id: str) -> None:
        """The collection is gone."""
        self._wanted.pop(collection_id, None)
        self._done_at.pop(collection_id, None)

    async def _warm(self, collection: Collection) -> None:
        try:
            await self._corpora.warm(collection, why="auto chose cag")
        except (GatewayError, RetrievalError, PromptError) as error:
            self._log.warning("warming_failed", collection=collection.id, problem=str(error))
        finally:
            self._running.discard(collection.id)
            self._done_at[collection.id] = (collection.revision, self._clock())
