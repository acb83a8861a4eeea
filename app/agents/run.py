"""One run: asks the model, has the tools called, writes each thing down before the next one.

Whatever is killed when, the record says what was done: a step whose answer is written down is never
asked again, and a call that was begun is never begun again unless that makes no difference.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from app.accounts import JSONObject
from app.agents.asking import keep_step, opened
from app.agents.calls import CallMaker
from app.agents.counts import CallOutcome
from app.agents.history import RunHistory
from app.agents.keeping import Keeper
from app.agents.loop import (
    Ask,
    Call,
    CallState,
    End,
    Make,
    RunStatus,
    Wait,
    after_crash,
    next_move,
    spent_by,
)
from app.agents.records import RunRecord, StepRecord, output_item
from app.agents.store import RunLostError
from app.agents.telling import told_while
from app.agents.toolbox import Toolbox
from app.agents.writer import RunWriter, StepForm, agent_block
from app.callers import Caller
from app.errors import (
    AdmissionError,
    EngineNotReadyError,
    EngineUnreachableError,
    GatewayError,
)
from app.pipeline import relay
from app.problems import problem_of, sentence_of
from app.refusing import noted
from app.responses.bodies import ResponsesRequest
from app.services import Services
from prompts import PromptError
from prompts.agent import Agent, Limits
from retrieval import RetrievalError

if TYPE_CHECKING:
    from app.agents.agents import Agents

_PAUSE_S = 0.5
MakesChild = Callable[["AgentRun", StepRecord, Call, Agent, str], Awaitable["AgentRun"]]

_LATER = (AdmissionError, EngineNotReadyError, EngineUnreachableError)


@dataclass(slots=True, kw_only=True)
class AgentRun:
    """A run that this gateway works on.

    Attributes:
        request: of each step; the client's, with the agent's instructions and tools.
        is_resumed: whether something of it was done before, by whoever.
        cancelled: whether it is to end now.
        status: how it stands.
        root_id: the run that a sub-agent's works for in the end.
        tells_sub_agents: whether its events have those of its sub-agents among them.
    """

    agents: "Agents"
    services: Services
    agent: Agent
    limits: Limits
    record: RunRecord
    caller: Caller
    request: ResponsesRequest
    toolbox: Toolbox
    history: RunHistory
    writer: RunWriter
    keeper: Keeper
    make_child: "MakesChild"
    is_resumed: bool = False
    cancelled: bool = False
    status: RunStatus = RunStatus.IN_PROGRESS
    root_id: str | None = None
    tells_sub_agents: bool = False
    _began: float = field(default_factory=time.monotonic)
    _told: bool = False
    _ended_by: str | None = None
    _given: int = 0
    _maker: CallMaker | None = None

    @property
    def steps(self) -> list[StepRecord]:
        """What was done so far."""
        return self.history.steps

    @property
    def has_begun(self) -> bool:
        """Whether somebody has heard of it, or anything of it was written down."""
        return self._told or self.is_resumed

    @property
    def seconds(self) -> float:
        """That it has worked."""
        return self.record.seconds + time.monotonic() - self._began

    @property
    def seconds_left(self) -> float:
        """Of its budget."""
        return max(0.0, self.limits.seconds - self.seconds)

    def cancel(self) -> None:
        """End as soon as may be: the engine and the tools are stopped."""
        self.cancelled = True
        if self._maker is not None:
            self._maker.stop()

    async def give_up(self) -> None:
        """Its client has gone: it ends here, and nobody is told.

        Raises:
            RunLostError: the run is another's now.
        """
        self.writer.drop_step()
        self.cancel()
        await self._end(End(status=RunStatus.CANCELLED, reason="client_left"))

    async def events(self) -> AsyncGenerator[JSONObject]:
        """The response's events, from its beginning or from where it was left, to its end.

        It ends without one where somebody has to decide first.

        Raises:
            GatewayError, PromptError, RetrievalError: before the first event; it can't be begun.
        """
        if self.is_resumed:
            self._given = sum(step.is_answered for step in self.steps)
            await self._pick_up()
            for event in self._begin():
                yield event
        try:
            async with aclosing(self._work()) as events:
                async for event in events:
                    yield event
        except RunLostError as error:
            if not self._told:
                raise
            # Whoever has it now says how it ends.
            for event in self.writer.end_failed(str(error), problem_of(error).code):
                yield event
        except (GatewayError, PromptError, RetrievalError) as error:
            if not self._told:
                raise
            for event in await self.failed(error):
                yield event

    async def _pick_up(self) -> None:
        """After a crash: what was begun and may be done twice is done again, the rest waits."""
        if not self.steps:
            return
        last = self.steps[-1]
        for call in last.step.calls:
            now = after_crash(call)
            if now != call:
                await self.note(last.number, now)

    async def _work(self) -> AsyncGenerator[JSONObject]:
        while True:
            for event in self._results():
                yield event
            move = self._move()
            match move:
                case Ask():
                    async with aclosing(self._ask(move)) as events:
                        async for event in events:
                            yield event
                case Make():
                    async with aclosing(self._make(move)) as events:
                        async for event in events:
                            yield event
                    if self.status is RunStatus.INTERRUPTED:
                        return
                case Wait():
                    for event in await self._interrupted():
                        yield event
                    if self.status is RunStatus.INTERRUPTED:
                        return
                case End():
                    for event in await self._end(move):
                        yield event
                    return

    def _move(self) -> Ask | Make | Wait | End:
        if self.cancelled:
            return End(status=RunStatus.CANCELLED, reason="cancelled")
        if self._ended_by is not None:
            return End(status=RunStatus.INCOMPLETE, reason=self._ended_by)
        return next_move(self.limits, [each.step for each in self.steps], seconds=self.seconds)

    # Asking the model

    async def _ask(self, move: Ask) -> AsyncGenerator[JSONObject]:
        step_s = min(self.limits.step.seconds, self.seconds_left)
        until = time.monotonic() + step_s
        while not self.cancelled:
            try:
                chat, account, answer = await opened(self, move)
                break
            except _LATER as error:
                if not self._is_patient or time.monotonic() >= until:
                    raise
                await anyio.sleep(getattr(error, "retry_after_s", None) or _PAUSE_S)
        else:
            return
        for event in self._begin():
            yield event
        form, number = StepForm(self.writer), len(self.steps)
        account.keep = partial(keep_step, self, account)
        try:
            pieces = relay(self.services, chat, account, answer, form)
            async with aclosing(pieces):
                async for _ in pieces:
                    for event in form.taken():
                        yield event
                    late = time.monotonic() >= until
                    if (self.cancelled or late) and len(self.steps) == number:
                        self._ended_by = self._why_late() if late else None
                        break
        finally:
            if account.ticket is not None:
                account.ticket.close()
        if len(self.steps) > number:
            return
        self.writer.drop_step()
        if form.error is not None:
            raise form.error

    @property
    def _is_patient(self) -> bool:
        """Whether there is something to lose: then it waits for its turn, or for an engine."""
        return self.is_resumed or bool(self.steps) or self.record.parent is not None

    def _why_late(self) -> str:
        return "max_seconds" if self.seconds_left <= 0 else "max_step_seconds"

    # Calling tools

    async def _make(self, move: Make) -> AsyncGenerator[JSONObject]:
        last = self.steps[-1]
        for call in move.refused:
            await self.note(last.number, call)
            known = call.name if call.name in self.toolbox.own[self.agent.name] else None
            self.services.metrics.agents.not_made(known, CallOutcome.REFUSED)
        if self.cancelled:  # meanwhile
            return
        self._maker = maker = CallMaker(self, last)
        try:
            if self.tells_sub_agents and maker.hands_on(move.calls):
                async with aclosing(told_while(maker, move.calls)) as told:
                    async for said in told:
                        # Numbered where it is read: in the response that all of them work for.
                        yield said if self.root_id is not None else self.writer.passed_on(said)
            else:
                await maker.make(move.calls)
        finally:
            self._maker = None
        if maker.waits and not self.cancelled:
            for event in await self._interrupted():
                yield event

    def _results(self) -> Iterator[JSONObject]:
        """Of the last step's calls, once all are there."""
        if len(self.steps) > self._given and self.steps[-1].is_answered:
            self._given = len(self.steps)
            for call in self.steps[-1].step.calls:
                yield from self.writer.gave(output_item(self.steps[-1], call))

    async def note(self, number: int, call: Call) -> None:
        """Write down how far a call is.

        Raises:
            RunLostError: the run is another's now.
        """
        keep = partial(
            self.agents.store.keep_call, self.record.id, number, call, seconds=self.seconds
        )
        await anyio.to_thread.run_sync(keep)
        step = self.steps[number]
        calls = tuple(call if each.place == call.place else each for each in step.step.calls)
        self.steps[number] = replace(step, step=replace(step.step, calls=calls))

    # How it ends, and how it stands

    def _begin(self) -> Iterator[JSONObject]:
        if not self._told:
            self._told = True
            self._tell(RunStatus.IN_PROGRESS)
            yield from self.writer.begin()

    async def _interrupted(self) -> list[JSONObject]:
        keep = partial(self.agents.store.interrupt, self.record.id, seconds=self.seconds)
        if not await anyio.to_thread.run_sync(keep):
            # Somebody was quick.
            self.history.steps = await anyio.to_thread.run_sync(
                self.agents.store.steps, self.record.id
            )
            return []
        self.status = RunStatus.INTERRUPTED
        self.services.metrics.agents.waits(self.agent.name)
        self._tell(self.status)
        return list(self.writer.waits())

    async def _end(self, move: End) -> list[JSONObject]:
        self._tell(move.status, move.reason)
        events = [*self._begin(), *self.writer.end_run(move.status, move.reason, int(time.time()))]
        await self._ended(move.status, move.reason)
        return events

    async def failed(self, error: Exception) -> list[JSONObject]:
        """It broke off, or can't be begun: the events that say so, once that is written down.

        Raises:
            RunLostError: the run is another's now.
        """
        events = list(self._begin())
        problem = problem_of(error)
        self._tell(RunStatus.FAILED, problem.code)
        noted(error)
        events += self.writer.end_failed(sentence_of(error), problem.code)
        await self._ended(RunStatus.FAILED, problem.code)
        return events

    async def _ended(self, status: RunStatus, reason: str | None) -> None:
        stopped = await self.keeper.end(self, status, reason)
        self.status = status
        counts = self.services.metrics.agents
        counts.ended(self.agent.name, status.value, self.seconds)
        counts.stopped(stopped)

    def _tell(self, status: RunStatus, reason: str | None = None) -> None:
        spent = spent_by([each.step for each in self.steps])
        reports = [each.report for each in self.steps]
        waiting = waiting_calls(self.steps)
        self.writer.told(
            reports, agent_block(self.agent.name, status, spent, waiting, self.seconds, reason)
        )


def waiting_calls(steps: Sequence[StepRecord]) -> list[dict[str, Any]]:
    """The calls that somebody has to decide about."""
    return [
        {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        for step in steps
        for call in step.step.calls
        if call.state is CallState.INTERRUPTED
    ]
