"""The calls of one step, made beside each other, each written down before it is made."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import orjson
import structlog

from app.agents.loop import Call, CallState, RunStatus, spent_by
from app.agents.records import StepRecord
from app.agents.store import RunLostError
from app.agents.toolbox import SubAgent
from app.agents.tools import OutcomeUnknownError, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from app.agents.run import AgentRun

# Databases take neither.
_UNSTORABLE = {0: "\N{REPLACEMENT CHARACTER}"}


class CallMaker:
    """Makes calls for a run."""

    def __init__(self, run: "AgentRun", step: StepRecord) -> None:
        self._run = run
        self._step = step
        self._scope: anyio.CancelScope | None = None
        self._waits = False
        self._lost: RunLostError | None = None

    def stop(self) -> None:
        """Those under way are given up."""
        if self._scope is not None:
            self._scope.cancel()

    async def make(self, calls: Sequence[Call]) -> bool:
        """Returns when all are done, or whether somebody has to decide about one first.

        Raises:
            RunLostError: the run is another's now.
        """
        async with anyio.create_task_group() as tasks:
            self._scope = tasks.cancel_scope
            for call in calls:
                tasks.start_soon(self._make, call)
        if self._lost is not None:
            raise self._lost
        return self._waits

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
            return
        begun = replace(call, state=CallState.STARTED, attempts=call.attempts + 1)
        await run.note(number, begun)
        if isinstance(tool, SubAgent):
            await self._handed(begun, tool)
            return
        result = await self._called(begun, tool)
        if result is None:
            await run.note(number, replace(begun, state=CallState.INTERRUPTED))
            self._waits = True
            return
        await run.note(number, begun.done(_storable(result.text), is_error=result.is_error))

    async def _called(self, call: Call, tool: Tool) -> ToolResult | None:
        """What the tool says; None: nobody knows whether a call was made that mayn't be made
        twice."""
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

    async def _handed(self, call: Call, tool: SubAgent) -> None:
        run, number = self._run, self._step.number
        task = _task(call.arguments)
        if task is None:
            text = "the arguments must be a JSON object with the text `task`"
            await run.note(number, call.done(text, is_error=True))
            return
        child = await run.make_child(run, self._step, call, tool.agent, task)
        if not child.status.is_end:
            run.agents.live[child.record.id] = child
            try:
                async with aclosing(child.events()) as events:
                    async for _ in events:
                        pass
            finally:
                run.agents.live.pop(child.record.id, None)
        if child.status is RunStatus.INTERRUPTED:
            await run.note(number, replace(call, state=CallState.WAITING))
            self._waits = True
            return
        spent = spent_by([each.step for each in child.steps])
        is_error = child.status is not RunStatus.COMPLETED
        text = child.writer.text
        if is_error:
            text = f"{text}\n\n[the agent didn't end its work: {child.status}]".strip()
        done = replace(call, spent=spent).done(_storable(text), is_error=is_error)
        await run.note(number, done)


def _task(arguments: str) -> str | None:
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return None
    task = given.get("task") if isinstance(given, dict) else None
    return task if isinstance(task, str) and task.strip() else None


def _storable(text: str) -> str:
    return text.translate(_UNSTORABLE).encode("utf-8", "replace").decode()
