"""A run as it is written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.agents.loop import Call, CallState, RunStatus, Step
from app.stored.records import SaidItem

JSONObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The call of another run that a sub-agent's run is."""

    run_id: str
    step: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run, without its steps.

    Attributes:
        request: as the client sent it; a sub-agent's is its parent's.
        input: the items that it answers, as they are kept.
        driven: whether somebody else goes on with it after a crash.
        seconds: that it has worked.
        response: once it has ended.
        compacted: what it took to sum up its conversation before its first step.
    """

    id: str
    tenant: str
    agent: str
    created_at: float
    request: JSONObject
    input: Sequence[JSONObject] = ()
    status: RunStatus = RunStatus.IN_PROGRESS
    reason: str | None = None
    ended_at: float | None = None
    conversation_id: str | None = None
    parent: Parent | None = None
    driven: bool = False
    cancelled: bool = False
    seconds: float = 0.0
    response: JSONObject | None = None
    compacted: Mapping[str, int | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step with what the model answered.

    Attributes:
        items: in OpenAI's shapes, without the calls' outputs.
        output_ids: all token ids of the answer; packed.
        report: what was re-used for it.
    """

    number: int
    items: Sequence[JSONObject]
    step: Step
    report: JSONObject
    output_ids: bytes | None = None
    tokenizer: str | None = None

    @property
    def is_answered(self) -> bool:
        """Whether all its calls have their results."""
        return all(call.state is CallState.DONE for call in self.step.calls)

    def said(self) -> list[SaidItem]:
        """Its part of the transcript: the answer, and the results of its calls once all are there,
        in the calls' order."""
        items = [SaidItem(item=item) for item in self.items]
        if items and self.output_ids is not None:
            items[-1] = SaidItem(
                item=self.items[-1], output_ids=self.output_ids, tokenizer=self.tokenizer
            )
        if self.is_answered:
            items += [SaidItem(item=output_item(self, call)) for call in self.step.calls]
        return items


def output_item(step: StepRecord, call: Call) -> JSONObject:
    """The result of a call, as an item of the response."""
    asked = [item for item in step.items if item["type"] == "function_call"][call.place]
    return {
        "id": f"fco_{asked['id'].partition('_')[2]}",
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": call.output or "",
        "status": "incomplete" if call.is_error else "completed",
    }


def calls_of(items: Sequence[Mapping[str, Any]], idempotent: Mapping[str, bool]) -> list[Call]:
    """The calls that an answer asks for. A name that no tool has is answered with an error, which
    may be done twice."""
    asked = [item for item in items if item["type"] == "function_call"]
    return [
        Call(
            place=place,
            call_id=item["call_id"],
            name=item["name"],
            arguments=item["arguments"],
            idempotent=idempotent.get(item["name"], True),
        )
        for place, item in enumerate(asked)
    ]
