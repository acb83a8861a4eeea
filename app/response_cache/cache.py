"""The response cache: looked up before an engine is asked, written to beside the requests."""

import time
from collections import deque
from collections.abc import Callable
from functools import partial

import anyio
import sqlalchemy as sa
import structlog

from app.accounts import Account
from app.engine import EngineInfo
from app.hot.departure import shielded
from app.response_cache.counts import Outcome, ResponseCacheCounts
from app.response_cache.keys import CacheControl, cache_key, has_one_answer
from app.response_cache.records import KeptAnswer
from app.response_cache.store import HOUR_S, AnswerStore, Given, NewAnswer
from app.schemas import ChatCompletionRequest
from app.settings import ResponseCacheSettings

_LOOK_S = 0.25
_TROUBLE_S = 5.0
# Answers that wait to be written; beyond them the oldest are forgotten.
_WAITING = 1000
_WRITTEN_AT_ONCE = 64


class ResponseCache:
    """One event loop owns it.

    Args:
        secret: what keys are made with.
        now: seconds since 1970.
    """

    def __init__(
        self,
        settings: ResponseCacheSettings,
        store: AnswerStore,
        *,
        secret: bytes,
        counts: ResponseCacheCounts,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._store = store
        self._secret = secret
        self._counts = counts
        self._now = now
        self._new: deque[NewAnswer] = deque(maxlen=_WAITING)
        self._given: dict[tuple[int, str], Given] = {}
        self._forgotten: list[str] = []
        self._log = structlog.get_logger()

    def key(
        self,
        request: ChatCompletionRequest,
        account: Account,
        engine: EngineInfo,
        control: CacheControl,
    ) -> str | None:
        """What the answer of a prepared request is kept under; None where none may be."""
        if control is CacheControl.NO_STORE or not has_one_answer(request):
            self._counts.count(Outcome.LEFT_OUT)
            return None
        assert account.prepared is not None
        return cache_key(self._secret, account.prepared, engine)

    async def find(self, key: str, *, tenant: str) -> KeptAnswer | None:
        """The answer under a key; without a database there is none."""
        look = partial(self._store.find, key, tenant=tenant, now=self._now())
        try:
            found = await anyio.to_thread.run_sync(look)
        except sa.exc.SQLAlchemyError as error:
            self._log.warning("response_cache_away", problem=type(error).__name__)
            found = None
        if found is None:
            self._counts.count(Outcome.MISSED)
        return found

    def given(self, answer: KeptAnswer, *, tenant: str) -> None:
        """An answer is given again."""
        self._counts.given(answer)
        place = (int(self._now()) // HOUR_S, tenant)
        self._given[place] = self._given.get(place, Given()).plus(answer)

    def keep_later(self, key: str, answer: KeptAnswer, *, tenant: str, salt: str) -> None:
        """Keep an answer, when there is time; one that is too large isn't kept."""
        if len(answer.content) + len(answer.reasoning or "") > self._settings.max_answer_bytes:
            return
        expires_at = answer.made_at + self._settings.ttl_s
        self._new.append(
            NewAnswer(key=key, tenant=tenant, salt=salt, answer=answer, expires_at=expires_at)
        )

    def forget(self, salt: str) -> None:
        """Nothing under this salt is ever asked for again: its answers go."""
        self._forgotten.append(salt)

    async def drop(self, tenant: str) -> int:
        """Let go of all of a tenant's answers; how many that were."""
        waiting = [new for new in self._new if new.tenant != tenant]
        self._new = deque(waiting, maxlen=_WAITING)
        return await anyio.to_thread.run_sync(partial(self._store.drop, tenant=tenant))

    async def watch(self) -> None:
        """Write what has come, for ever, and once more in the end."""
        try:
            while True:
                try:
                    await self.write()
                    await anyio.sleep(_LOOK_S)
                except sa.exc.SQLAlchemyError as error:
                    self._log.warning("response_cache_away", problem=type(error).__name__)
                    await anyio.sleep(_TROUBLE_S)
        finally:
            with shielded(None), anyio.move_on_after(_TROUBLE_S):
                await self.write()

    async def write(self) -> None:
        """Write what has come.

        Raises:
            SQLAlchemyError: the database can't be used; what wasn't written waits.
        """
        while self._new:
            some = [self._new[place] for place in range(min(len(self._new), _WRITTEN_AT_ONCE))]
            max_bytes = self._settings.max_mb * 2**20
            keep = partial(self._store.keep, some, max_bytes=max_bytes, now=self._now())
            await anyio.to_thread.run_sync(keep)
            written = set(map(id, some))
            left = [new for new in self._new if id(new) not in written]
            self._new = deque(left, maxlen=_WAITING)
        if self._given:
            given, self._given = self._given, {}
            await anyio.to_thread.run_sync(self._store.count, given)
        if self._forgotten:
            salts, self._forgotten = self._forgotten, []
            await anyio.to_thread.run_sync(partial(self._store.drop, salts=salts))
