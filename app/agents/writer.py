"""Writes the response that a run is: its events, and the object that they lead to.

Each step's answer is written as any answer is; after it come the results of its calls, as items of
their own, and then the next step's answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.accounts import JSONObject
from app.agents.loop import CUT_BY, ENDS_WITHIN_A_CALL, RunStatus, Spent
from app.agents.telling import SUB_AGENT_EVENT
from app.agents.totals import compaction_block, summed_block, summed_usage
from app.errors import AnswerError
from app.responses.objects import Frame
from app.responses.writer import Events, ResponseWriter

# OpenAI's events for what may end a response; a run that was cancelled has none of its own.
_LAST = {
    RunStatus.COMPLETED: "response.completed",
    RunStatus.INCOMPLETE: "response.incomplete",
    RunStatus.CANCELLED: "response.incomplete",
}
# OpenAI's types know no other; the run's own is in `foreword.agent`.
_OPENAI_REASONS = frozenset({"max_output_tokens", "content_filter"})


class RunWriter(ResponseWriter):
    """The response of one run. `output` are the items of steps that were made before.

    Attributes:
        compacted: what it took to sum up the conversation before the first step; None: it wasn't.
    """

    def __init__(self, frame: Frame, output: Sequence[JSONObject] = ()) -> None:
        super().__init__(frame, None)
        self._output.extend(output)
        self._made = len(output)
        self.compacted: Mapping[str, Any] | None = None
        self.finish: str | None = None
        self.usage: Mapping[str, Any] = {}
        self.block: JSONObject = {}

    def begin_step(self) -> None:
        """The model is asked again."""
        self._made = len(self._output)
        self._finish = self._call_index = None
        self._usage, self._block = {}, {}

    def end_step(self) -> Events:
        """The answer is complete."""
        if not any(item["type"] in ("message", "function_call") for item in self.step_items):
            yield from self._begin("message")
        yield from self._close("incomplete" if self._is_cut else "completed")
        self.finish, self.usage, self.block = self._finish, self._usage, self._block

    @property
    def _is_cut(self) -> bool:
        """Whether the item that is being written may not be whole."""
        within = self._open == "function_call" and self._finish in ENDS_WITHIN_A_CALL
        return within or self._finish in CUT_BY

    def drop_step(self) -> None:
        """The answer broke off, and counts as never said."""
        self._open = None
        del self._output[self._made :]

    @property
    def step_items(self) -> list[JSONObject]:
        """What the model answered in this step."""
        return list(self._output[self._made :])

    def gave(self, item: JSONObject) -> Events:
        """A call's result."""
        place = len(self._output)
        self._output.append(item)
        yield self._event("response.output_item.added", output_index=place, item=item)
        yield self._event("response.output_item.done", output_index=place, item=item)

    def passed_on(self, said: JSONObject) -> JSONObject:
        """What a sub-agent said, as an event of this response's."""
        return self._event(SUB_AGENT_EVENT, **said)

    def told(self, reports: Sequence[JSONObject], agent: JSONObject) -> None:
        """How much was used, and how the run stands."""
        self.response["usage"] = summed_usage(reports)
        block = summed_block(reports) | {"agent": agent}
        if self.compacted is not None:
            block["compaction"] = compaction_block(self.compacted, reports)
        self.response["foreword"] = block

    def waits(self) -> Events:
        """Somebody has to decide: the response stays in progress."""
        yield self._event("response.in_progress", response=self._snapshot())

    def end_run(self, status: RunStatus, reason: str | None, now: int) -> Events:
        """The run is over."""
        self.response["status"] = status.value
        if status is RunStatus.COMPLETED:
            self.response["completed_at"] = now
        elif reason is not None:
            told = reason if reason in _OPENAI_REASONS else None
            self.response["incomplete_details"] = {"reason": told}
        yield self._event(_LAST[status], response=self._snapshot())

    def end_failed(self, message: str, code: str) -> Events:
        """The run broke off."""
        self.drop_step()
        self.response["status"] = RunStatus.FAILED.value
        self.response["error"] = {"code": "server_error", "message": message}
        yield self._event("error", code=code, message=message, param=None)
        yield self._event("response.failed", response=self._snapshot())

    @property
    def text(self) -> str:
        """What the model said last, where it called nothing."""
        if not self._output or self._output[-1]["type"] != "message":
            return ""
        return "".join(part.get("text", "") for part in self._output[-1]["content"])

    @property
    def snapshot(self) -> JSONObject:
        """The response as it stands, to be kept."""
        return self._snapshot()


class StepForm:
    """Collects one step's events while it is relayed: `pipeline.relay` wants bytes.

    Attributes:
        error: why the answer broke off.
    """

    def __init__(self, writer: RunWriter) -> None:
        self.error: AnswerError | None = None
        self._writer = writer
        self._events: list[JSONObject] = []

    def taken(self) -> list[JSONObject]:
        """The events since the last time."""
        taken, self._events = self._events, []
        return taken

    def begin(self) -> bytes:
        """Nothing: the run has begun long since."""
        self._writer.begin_step()
        return b""

    def part(self, part: JSONObject) -> bytes:
        """More of the answer."""
        return self._add(self._writer.part(part))

    def end(self) -> bytes:
        """The answer is complete."""
        return self._add(self._writer.end_step())

    def failed(self, error: AnswerError) -> bytes:
        """It broke off; the run tells of it."""
        self.error = error
        return b""

    def _add(self, events: Events) -> bytes:
        """Something, where there is something to take."""
        before = len(self._events)
        self._events.extend(events)
        return b"." if len(self._events) > before else b""


def agent_block(
    name: str,
    status: RunStatus,
    spent: Spent,
    waiting: Sequence[JSONObject],
    seconds: float,
    reason: str | None = None,
) -> JSONObject:
    """How a run stands, for its response; `reason`: why it ended before its end."""
    return {
        "name": name,
        "status": status.value,
        "reason": reason,
        "steps": spent.steps,
        "tool_calls": spent.tool_calls,
        "output_tokens": spent.tokens,
        "seconds": round(seconds, 3),
        "waiting": list(waiting),
    }
