"""The calls of one step, made beside each other, each written down before it is made."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import orjson
import structlog

from app.accounts import JSONObject
from app.agents.counts import CallOutcome
from app.agents.loop import Call, CallState, RunStatus, spent_by
from app.agents.records import StepRecord
from app.agents.store import RunLostError
from app.agents.telling import said_by
from app.agents.toolbox import SubAgent
from app.agents.tools import OutcomeUnknownError, Tool, ToolContext, ToolResult
from app.errors import GatewayError
from app.problems import sentence_of
from prompts import PromptError
from retrieval import RetrievalError

if TYPE_CHECKING:
    from app.agents.run import AgentRun

Tells = Callable[[JSONObject], Awaitable[None]]

# Databases take neither.
_UNSTORABLE = {0: "\N{REPLACEMENT CHARACTER}"}


class CallMaker:
    """Makes calls for a run.

    Attributes:
        waits: somebody has to decide about one of them first.
    """

    def __init__(self, run: "AgentRun", step: StepRecord) -> None:
        self._run = run
        self._step = step
        self.waits = False
        self._stopped = False
        self._scope: anyio.CancelScope | None = None
        self._tell: Tells | None = None
        self._lost: RunLostError | None = None

    def stop(self) -> None:
        """Those under way are given up, and none is begun."""
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    def hands_on(self, calls: Sequence[Call]) -> bool:
        """Whether one of them is a sub-agent's."""
        own = self._run.toolbox.own[self._run.agent.name]
        return any(isinstance(own.get(call.name), SubAgent) for call in calls)

    async def make(self, calls: Sequence[Call], tell: Tells | None = None) -> None:
        """Returns when all are done, or wait.

        Args:
            tell: is given what sub-agents say.

        Raises:
            RunLostError: the run is another's now.
        """
        if self._stopped:
            return
        self._tell = tell
        async with anyio.create_task_group() as tasks:
            self._scope = tasks.cancel_scope
            for call in calls:
                tasks.start_soon(self._make, call)
        if self._lost is not None:
            raise self._lost

    async def _make(self, call: Call) -> None:
        try:
            await self._made(call)
        except RunLostError as error:
            self._lost = error
            self.stop()

    async def _made(self, call: Call) -> None:
        run, number = self._run, self._step.number
        tool = run.toolbox.own[run.agent.name].get(call.name)
        if tool is None:
            known = ", ".join(run.toolbox.own[run.agent.name]) or "none"
            text = f"there is no tool {call.name!r}; there are: {known}"
            await run.note(number, call.done(text, is_error=True))
            run.services.metrics.agents.not_made(None, CallOutcome.NO_SUCH_TOOL)
            return
        begun = replace(call, state=CallState.STARTED, attempts=call.attempts + 1)
        await run.note(number, begun)
        began, outcome = time.monotonic(), CallOutcome.STOPPED
        try:
            if isinstance(tool, SubAgent):
                noted = await self._handed(begun, tool)
            else:
                noted = await self._called(begun, tool)
            outcome = _outcome(noted)
        finally:
            seconds = time.monotonic() - began
            run.services.metrics.agents.called(call.name, outcome, seconds)
        self.waits |= noted.state is not CallState.DONE
        await run.note(number, noted)

    async def _called(self, call: Call, tool: Tool) -> Call:
        """The call with its result; interrupted where nobody knows whether it was made, and it
        mayn't be made twice."""
        result = await self._result(call, tool)
        if result is None:
            return replace(call, state=CallState.INTERRUPTED)
        return call.done(_storable(result.text), is_error=result.is_error)

    async def _result(self, call: Call, tool: Tool) -> ToolResult | None:
        run = self._run
        within_s = min(run.limits.step.seconds, run.seconds_left)
        context = ToolContext(
            tenant=run.record.tenant,
            run_id=run.record.id,
            call_id=call.call_id,
            deadline=anyio.current_time() + within_s,
        )
        try:
            with anyio.fail_after(within_s):
                return await tool.call(call.arguments, context)
        except TimeoutError:
            problem = f"it gave no answer within {within_s:g} s"
        except OutcomeUnknownError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a tool's fault ends its call, not the run
            structlog.get_logger().warning(
                "tool_failed", tool=call.name, run_id=run.record.id, problem=repr(error)
            )
            return ToolResult(text=f"the tool failed: {error}", is_error=True)
        if not tool.spec.idempotent:
            return None
        return ToolResult(text=f"the tool failed: {problem}", is_error=True)

    async def _handed(self, call: Call, tool: SubAgent) -> Call:
        """The call with the sub-agent's answer; waiting where that waits itself."""
        run = self._run
        task = _task(call.arguments)
        if task is None:
            text = "the arguments must be a JSON object with the text `task`"
            return call.done(text, is_error=True)
        child = await run.make_child(run, self._step, call, tool.agent, task)
        if not child.status.is_end:
            run.agents.live[child.record.id] = child
            try:
                async with aclosing(child.events()) as events:
                    async for event in events:
                        await self._pass_on(child, call, event)
            except RunLostError:
                raise
            except (GatewayError, PromptError, RetrievalError) as error:
                # Its caller may do without it, as without any other tool.
                for event in await child.failed(error):
                    await self._pass_on(child, call, event)
                text = f"the agent couldn't begin: {sentence_of(error)}"
                return call.done(_storable(text), is_error=True)
            finally:
                run.agents.live.pop(child.record.id, None)
        if child.status is RunStatus.INTERRUPTED:
            return replace(call, state=CallState.WAITING)
        spent = spent_by([each.step for each in child.steps])
        is_error = child.status is not RunStatus.COMPLETED
        text = child.writer.text
        if is_error:
            text = f"{text}\n\n[the agent didn't end its work: {child.status}]".strip()
        return replace(call, spent=spent).done(_storable(text), is_error=is_error)

    async def _pass_on(self, child: "AgentRun", call: Call, event: JSONObject) -> None:
        if self._tell is not None:
            await self._tell(said_by(child, call, event))


def _outcome(call: Call) -> CallOutcome:
    if call.state is not CallState.DONE:
        return CallOutcome.INTERRUPTED
    return CallOutcome.ERROR if call.is_error else CallOutcome.OK


def _task(arguments: str) -> str | None:
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return None
    task = given.get("task") if isinstance(given, dict) else None
    return task if isinstance(task, str) and task.strip() else None


def _storable(text: str) -> str:
    return text.translate(_UNSTORABLE).encode("utf-8", "replace").decode()
