"""Works on batches, beside live traffic.

Each answer is kept before the next thing is done for its batch. Whatever is killed when: a request
whose answer is kept is never sent again, one that was under way is, and stands once in the output.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import anyio
import anyio.abc
import orjson
import sqlalchemy as sa
import structlog

from app.batches.files import BatchFiles
from app.batches.lines import LineProblem, read_lines
from app.batches.ordering import Rotation, prefix_order
from app.batches.pacing import LONG_TOKENS, computed_tokens, rest_s
from app.batches.records import (
    Batch,
    BatchStatus,
    LineAnswer,
    WaitingLine,
    answered_line,
)
from app.batches.retrying import pause_s
from app.batches.sharing import conversation_of
from app.batches.store import BatchStore
from app.settings import BatchesSettings, WireSettings
from retrieval import RetrievalError, StoredFileDamagedError, StoredFileNotFoundError

# How often batches that are worked on here are looked at, for what somebody says elsewhere.
_LOOK_S = 0.5
# What other gateways have left is found so late. What comes here wakes.
IDLE_LOOK_S = 5.0
_READ_LINES = 64
# So many are read where those that were read wait for their conversations.
_MOST_AT_HAND = 512
# Others that were here a moment ago are likely to be here in a moment, and within the minute it is
# as likely that one of them meets a long prompt.
_BUSY_S = 1.0
_RESTS_S = 60.0
_TROUBLE_S = 2.0
# A live client, say, has the conversation.
_LOCKED = 409


def _unknown(_tokens: int) -> float | None:
    return None


class Sends(Protocol):
    """Whoever has a request answered."""

    async def send(self, path: str, body: bytes, *, tenant: str) -> LineAnswer:
        """The answer, whatever it is."""
        ...


@dataclass(slots=True)
class _Active:
    """A batch that is worked on.

    Attributes:
        under_way: number and conversation of those that are being answered.
        leader: a request that is sent alone.
        not_before: a time of the runner's clock; `locked_until` are such, of conversations that
            somebody else has.
    """

    batch: Batch
    waiting: deque[WaitingLine] = field(default_factory=deque)
    under_way: dict[int, str | None] = field(default_factory=dict)
    leader: int | None = None
    read_to: int = -1
    read_all: bool = False
    not_before: float = 0.0
    locked_until: dict[str, float] = field(default_factory=dict)

    def place(self, now: float) -> int | None:
        """Where the next request stands that may be sent: turns of a conversation come one after
        the other, as they stand in the file."""
        taken = set(self.under_way.values()) - {None}
        taken |= {name for name, until in self.locked_until.items() if until > now}
        for place, line in enumerate(self.waiting):
            if line.conversation not in taken:
                return place
        return None

    def take(self, now: float) -> WaitingLine:
        """That request, which is under way from now on."""
        place = self.place(now)
        assert place is not None
        line = self.waiting[place]
        del self.waiting[place]
        self.under_way[line.number] = line.conversation
        if line.leads:
            self.leader = line.number
        return line


class BatchRunner:
    """Sends requests of batches, stores their answers, ends batches.

    Args:
        others: how many requests wait or are answered that aren't sent from here.
        owner: who works on batches here, the same after a restart.
        prefill_s: seconds that an engine takes to compute so many tokens; None: not known yet.
        now, clock: seconds since 1970; seconds that never go back.
    """

    def __init__(
        self,
        store: BatchStore,
        files: BatchFiles,
        sender: Sends,
        *,
        settings: BatchesSettings,
        wire: WireSettings,
        others: Callable[[], int],
        owner: str,
        prefill_s: Callable[[int], float | None] = _unknown,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._files = files
        self._sender = sender
        self._settings = settings
        self._wire = wire
        self._others = others
        self._owner = owner
        self._prefill_s = prefill_s
        self._now = now
        self._clock = clock
        self._active: dict[str, _Active] = {}
        self._rotation = Rotation()
        self._woken = anyio.Event()
        self._busy_until = -_RESTS_S
        # Beside others no line is sent before the first, and none that leads before the second.
        self._rest_until = self._leaders_rest_until = 0.0
        self._looked_at = -_LOOK_S
        self._log = structlog.get_logger()

    def wake(self) -> None:
        """There is something new to do."""
        self._looked_at = -_LOOK_S
        self._woken.set()

    async def watch(self) -> None:
        """Work, for ever."""
        self._active.clear()
        async with anyio.create_task_group() as tasks:
            while True:
                self._woken = anyio.Event()
                try:
                    await self._step(tasks)
                except (sa.exc.SQLAlchemyError, RetrievalError) as error:
                    self._log.warning("batches_wait", problem=str(error).partition("\n")[0])
                    await anyio.sleep(_TROUBLE_S)
                    continue
                with anyio.move_on_after(_LOOK_S if self._active else IDLE_LOOK_S):
                    await self._woken.wait()

    async def _step(self, tasks: anyio.abc.TaskGroup) -> None:
        if self._clock() - self._looked_at >= _LOOK_S:
            await self._look()
        for active in list(self._active.values()):
            await self._tend(active)
        while (chosen := self._next()) is not None:
            tasks.start_soon(self._answer, chosen, chosen.take(self._clock()))
            await self._read(chosen)

    async def _look(self) -> None:
        """Which batches are to be worked on here, as they stand now."""
        self._looked_at = self._clock()
        held = await anyio.to_thread.run_sync(self._store.claim, self._owner, self._now())
        for batch in held:
            known = self._active.setdefault(batch.id, _Active(batch))
            known.batch = batch
        for gone in self._active.keys() - {batch.id for batch in held}:
            del self._active[gone]
            self._rotation.forget(gone)

    async def _tend(self, active: _Active) -> None:
        """Everything about a batch but the sending."""
        batch = active.batch
        if batch.status is BatchStatus.VALIDATING and not self._is_over(batch):
            await self._validate(batch)
        elif batch.status is BatchStatus.CANCELLING or self._is_over(batch):
            if not active.under_way:
                await self._end(active)
        else:
            await self._read(active)
            if active.read_all and not active.waiting and not active.under_way:
                await self._end(active)

    async def _validate(self, batch: Batch) -> None:
        read = partial(self._checked, batch)
        problems = await anyio.to_thread.run_sync(read)
        if problems:
            refuse = partial(self._store.refuse, batch, problems, self._now())
            await anyio.to_thread.run_sync(refuse)
        self.wake()

    def _checked(self, batch: Batch) -> list[LineProblem]:
        """Accepts a batch whose file is as it should be; else what is wrong with it. Blocks."""
        try:
            data = self._files.requests(batch)
        except (StoredFileNotFoundError, StoredFileDamagedError) as error:
            return [LineProblem(code="file_not_found", message=str(error), param="input_file_id")]
        lines, problems = read_lines(
            data, batch.endpoint, max_lines=self._settings.max_lines, limits=self._wire
        )
        if not problems:
            places = prefix_order([line.key for line in lines])
            self._store.accept(batch, lines, places, self._now())
        return problems

    async def _read(self, active: _Active) -> None:
        """Keep some requests at hand, one of them such that it may be sent."""
        while (
            not active.read_all
            and len(active.waiting) < _MOST_AT_HAND
            and active.place(self._clock()) is None
        ):
            lines = await anyio.to_thread.run_sync(partial(self._more, active))
            active.read_all = len(lines) < _READ_LINES
            active.waiting.extend(lines)
            if lines:
                active.read_to = lines[-1].place

    def _more(self, active: _Active) -> list[WaitingLine]:
        """Blocks."""
        batch = active.batch
        lines = self._store.waiting(batch.id, after=active.read_to, limit=_READ_LINES)
        if batch.endpoint == "/v1/responses":
            for line in lines:
                line.conversation = conversation_of(batch.endpoint, orjson.loads(line.body))
        return lines

    def _next(self) -> _Active | None:
        """The batch that sends its next request now; None: none may."""
        own = sum(len(active.under_way) for active in self._active.values())
        now = self._clock()
        if self._others() > 0:
            self._busy_until = now + _BUSY_S
        if own >= (self._settings.beside if now < self._busy_until else self._settings.concurrent):
            return None
        taken = self._rotation.take([(a.batch.tenant, a.batch.id) for a in self._ready(now)])
        return None if taken is None else self._active[taken]

    def _ready(self, now: float) -> Iterator[_Active]:
        for active in self._active.values():
            batch = active.batch
            is_running = batch.status is BatchStatus.IN_PROGRESS and not self._is_over(batch)
            may_send = active.leader is None and now >= active.not_before
            if not is_running or not may_send or (place := active.place(now)) is None:
                continue
            if not self._rests(now, leads=active.waiting[place].leads):
                yield active

    def _rests(self, now: float, *, leads: bool) -> bool:
        """Whether a batch leaves the engine to others for now."""
        if now >= self._busy_until + _RESTS_S - _BUSY_S:
            return False
        return now < self._rest_until or (leads and now < self._leaders_rest_until)

    async def _rest(self, batch: Batch, line: WaitingLine, answer: LineAnswer) -> None:
        """After a long prompt."""
        tokens = computed_tokens(answer)
        prefill_s = self._prefill_s(tokens) if tokens and tokens > LONG_TOKENS else None
        if prefill_s is None:
            return
        left = batch.total - batch.completed - batch.failed
        if line.leads:
            try:
                left = await anyio.to_thread.run_sync(self._store.leading, batch.id)
            except sa.exc.SQLAlchemyError as error:  # then as if all that are left did
                self._log.warning("batches_wait", problem=type(error).__name__)
        until = self._clock() + rest_s(
            prefill_s,
            share=self._settings.long_share,
            left=left,
            time_left_s=batch.expires_at - self._now(),
        )
        if line.leads:
            self._leaders_rest_until = until
        else:
            self._rest_until = until

    def _is_over(self, batch: Batch) -> bool:
        return self._now() >= batch.expires_at

    async def _answer(self, active: _Active, line: WaitingLine) -> None:
        batch, is_locked = active.batch, False
        line.attempts += 1
        try:
            answer = await self._sender.send(batch.endpoint, line.body, tenant=batch.tenant)
            wait_s = pause_s(answer.status, answer.retry_after_s, line.attempts)
            if wait_s is None:
                result = answered_line(batch.id, line, answer)
                keep = partial(
                    self._store.keep, batch.id, line.number, result, succeeded=answer.succeeded
                )
                await anyio.to_thread.run_sync(keep)
                await self._rest(batch, line, answer)
                return
            is_locked = answer.status == _LOCKED
        except sa.exc.SQLAlchemyError as error:
            self._log.warning("batch_answer_lost", batch=batch.id, problem=type(error).__name__)
            wait_s = _TROUBLE_S
        finally:
            active.under_way.pop(line.number, None)
            if active.leader == line.number:
                active.leader = None
            self._woken.set()
        active.waiting.appendleft(line)
        if is_locked and line.conversation is not None:
            line.attempts -= 1
            active.locked_until[line.conversation] = self._clock() + wait_s
        else:
            active.not_before = self._clock() + wait_s

    async def _end(self, active: _Active) -> None:
        """Write the files, and then that they are there."""
        batch = active.batch

        def write() -> BatchStatus | None:
            ended = self._ending(batch)
            if ended is None:
                return None
            files = self._files.save(batch, self._store.results(batch.id, ended))
            self._store.end(
                batch,
                ended,
                output_file_id=files.output,
                error_file_id=files.errors,
                now=self._now(),
            )
            return ended

        ended = await anyio.to_thread.run_sync(write)
        if ended is None:
            active.read_to, active.read_all = -1, False
        else:
            self._log.info("batch_ended", batch=batch.id, status=ended.value, total=batch.total)
        self.wake()

    def _ending(self, batch: Batch) -> BatchStatus | None:
        """How a batch ends of which nothing is under way; None: it doesn't yet. Blocks."""
        if batch.status is BatchStatus.CANCELLING:
            return BatchStatus.CANCELLED
        if batch.total and not self._store.waiting(batch.id, after=-1, limit=1):
            return BatchStatus.COMPLETED
        return BatchStatus.EXPIRED if self._is_over(batch) else None
