"""What a run does next, from what it did so far. Pure: the same record always goes on alike.

```
ask the model ──▶ calls? ──no──▶ the end
      ▲             │yes
      └── all done ◀┘ make them, refuse them, or wait for somebody to decide
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from prompts.agent import Limits


class CallState(StrEnum):
    """How far a call is. `started` is written down before the tool is called."""

    WAITING = "waiting"
    STARTED = "started"
    INTERRUPTED = "interrupted"
    DONE = "done"


class RunStatus(StrEnum):
    """How a run stands; the last four are its end."""

    IN_PROGRESS = "in_progress"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        """Whether nothing more comes."""
        return self not in (RunStatus.IN_PROGRESS, RunStatus.INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run and its sub-agents used; `tokens` are those that the model wrote."""

    steps: int = 0
    tokens: int = 0
    tool_calls: int = 0

    def plus(self, other: "Spent") -> "Spent":
        """Both."""
        return Spent(
            steps=self.steps + other.steps,
            tokens=self.tokens + other.tokens,
            tool_calls=self.tool_calls + other.tool_calls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that the model asked for.

    Attributes:
        place: among the calls of its step.
        arguments: the model's text, byte for byte.
        attempts: how often it was begun.
        spent: by the sub-agent that it was.
    """

    place: int
    call_id: str
    name: str
    arguments: str
    idempotent: bool
    state: CallState = CallState.WAITING
    attempts: int = 0
    output: str | None = None
    is_error: bool = False
    spent: Spent = Spent()

    def done(self, output: str, *, is_error: bool = False) -> "Call":
        """With its result."""
        return replace(self, state=CallState.DONE, output=output, is_error=is_error)


# Why an answer ended that isn't whole: the engine's word, and a run's reason.
CUT_BY: Mapping[str, str] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
    "abort": "aborted",
}
# An engine closes the JSON of a call that wasn't whole, so that the arguments don't tell. What it
# says of an answer with calls does: all were whole after `tool_calls` only.
# Source: sglang 0.5.23 srt/entrypoints/openai/serving_chat.py `_check_for_unstreamed_tool_args`,
# `_incomplete_tool_call_indices`.
ENDS_WITHIN_A_CALL = frozenset({"length", "stop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the model.

    Attributes:
        finish: why it ended, in the engine's words.
        tokens: that the model wrote.
    """

    finish: str | None
    tokens: int
    calls: tuple[Call, ...] = ()

    @property
    def cut_by(self) -> str | None:
        """What ended the answer before the model did, as a run's reason; None: nothing."""
        return CUT_BY.get(self.finish or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Ask the model for the next step, of so many tokens at most.

    `can_call` says whether a call would still be made; an answer may come anyway.
    """

    max_tokens: int
    can_call: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """Make these calls, beside each other; `refused` are answered with why they aren't made."""

    calls: tuple[Call, ...]
    refused: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nobody knows whether these calls were made: somebody has to say what is to be done."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The run is over; `reason` says why it is incomplete."""

    status: RunStatus
    reason: str | None = None


Move = Ask | Make | Wait | End


def spent_by(steps: Sequence[Step]) -> Spent:
    """What steps used."""
    total = Spent()
    for step in steps:
        calls = [call for call in step.calls if call.attempts]
        total = total.plus(Spent(steps=1, tokens=step.tokens, tool_calls=len(calls)))
        for call in calls:
            total = total.plus(call.spent)
    return total


def next_move(limits: Limits, steps: Sequence[Step], *, seconds: float) -> Move:
    """What comes now. `seconds` are those that the run has worked."""
    spent = spent_by(steps)
    over = _over(limits, spent, seconds)
    if not steps:
        return _ask(limits, spent) if over is None else _incomplete(over)
    last = steps[-1]
    waiting = tuple(call for call in last.calls if call.state is CallState.WAITING)
    if waiting:
        return _calls(limits, spent, last, waiting, over)
    unknown = tuple(call for call in last.calls if call.state is CallState.INTERRUPTED)
    if unknown:
        return Wait(calls=unknown)
    if last.cut_by is not None and not (last.calls and last.finish == "length"):
        return _incomplete(last.cut_by)
    if not last.calls:
        return End(status=RunStatus.COMPLETED)
    return _ask(limits, spent) if over is None else _incomplete(over)


def after_crash(call: Call) -> Call:
    """A call as it stands after its gateway died: one that was begun may have been made or not.

    Only where that makes no difference it is made again by itself.
    """
    if call.state is not CallState.STARTED:
        return call
    state = CallState.WAITING if call.idempotent else CallState.INTERRUPTED
    return replace(call, state=state)


def left_for(limits: Limits, own: Limits, spent: Spent, seconds: float) -> Limits:
    """The limits of a sub-agent: its `own`, within what its caller has left."""
    return replace(
        own,
        steps=min(own.steps, max(0, limits.steps - spent.steps)),
        tokens=min(own.tokens, max(0, limits.tokens - spent.tokens)),
        tool_calls=min(own.tool_calls, max(0, limits.tool_calls - spent.tool_calls)),
        seconds=min(own.seconds, max(0, int(limits.seconds - seconds))),
    )


def _ask(limits: Limits, spent: Spent) -> Ask:
    return Ask(
        max_tokens=min(limits.step.tokens, limits.tokens - spent.tokens),
        can_call=spent.tool_calls < limits.tool_calls,
    )


def _calls(
    limits: Limits, spent: Spent, step: Step, waiting: tuple[Call, ...], over: str | None
) -> Make:
    """Which of the calls that wait are made. A transcript shows a result for each call, so that
    those that aren't have one too."""
    if over is not None:
        return _none_of(waiting, f"not called: the run's budget is used up ({over})")
    if step.cut_by is not None and step.finish != "length":
        return _none_of(waiting, f"not called: the answer was stopped ({step.cut_by})")
    made: list[Call] = []
    refused: list[Call] = []
    # Those before the last one were whole when that began.
    cut = len(step.calls) - 1 if step.finish in ENDS_WITHIN_A_CALL else None
    # A call that is made again was counted when it was begun first.
    left = limits.tool_calls - spent.tool_calls
    for call in waiting:
        if call.place == cut:
            text = f"not called: the answer ended after {step.tokens} tokens, within this call; "
            text += "call it again, with shorter arguments if they were long"
            refused.append(call.done(text, is_error=True))
        elif call.place >= limits.step.tool_calls:
            text = f"not called: a step may call {limits.step.tool_calls} tools; call it again"
            refused.append(call.done(text, is_error=True))
        elif call.attempts == 0 and left <= 0:
            text = "not called: the run's budget of tool calls is used up; answer now"
            refused.append(call.done(text, is_error=True))
        else:
            left -= call.attempts == 0
            made.append(call)
    return Make(calls=tuple(made), refused=tuple(refused))


def _none_of(waiting: tuple[Call, ...], text: str) -> Make:
    return Make(calls=(), refused=tuple(call.done(text, is_error=True) for call in waiting))


def _over(limits: Limits, spent: Spent, seconds: float) -> str | None:
    """Which budget is used up. Tool calls are no reason to stop: the model may still answer."""
    if seconds >= limits.seconds:
        return "max_seconds"
    if spent.tokens >= limits.tokens:
        return "max_output_tokens"
    if spent.steps >= limits.steps:
        return "max_steps"
    return None


def _incomplete(reason: str) -> End:
    return End(status=RunStatus.INCOMPLETE, reason=reason)
