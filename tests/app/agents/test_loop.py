"""What a run does next, for all that may have happened to it. Pure."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agents.asking import step_request
from app.agents.loop import (
    Ask,
    Call,
    CallState,
    End,
    Make,
    RunStatus,
    Spent,
    Step,
    Wait,
    after_crash,
    left_for,
    next_move,
    spent_by,
)
from app.responses.bodies import ResponsesRequest
from prompts.agent import Limits, StepLimits

LIMITS = Limits(steps=4, tokens=100, seconds=60, tool_calls=5, step=StepLimits(tokens=40))


def call(place: int = 0, *, idempotent: bool = False, **fields: object) -> Call:
    made = Call(place=place, call_id=f"c{place}", name="t", arguments="{}", idempotent=idempotent)
    return replace(made, **fields)  # type: ignore[arg-type]


def done(place: int = 0) -> Call:
    return call(place, attempts=1).done("ok")


def test_it_asks_makes_and_asks_again_until_nothing_is_called() -> None:
    assert next_move(LIMITS, [], seconds=0) == Ask(max_tokens=40)
    asked = Step(finish="tool_calls", tokens=10, calls=(call(),))
    assert next_move(LIMITS, [asked], seconds=0) == Make(calls=(call(),))
    made = replace(asked, calls=(done(),))
    assert next_move(LIMITS, [made], seconds=0) == Ask(max_tokens=40)
    answered = Step(finish="stop", tokens=10)
    assert next_move(LIMITS, [made, answered], seconds=0) == End(status=RunStatus.COMPLETED)


def test_where_no_call_would_be_made_any_more_none_is_demanded() -> None:
    limits = replace(LIMITS, tool_calls=1)
    first = next_move(limits, [], seconds=0)
    called = Step(finish="tool_calls", tokens=10, calls=(done(),))
    last = next_move(limits, [called], seconds=0)
    assert (first, last) == (Ask(max_tokens=40), Ask(max_tokens=40, can_call=False))
    named = {"type": "function", "name": "t"}
    some = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    for choice, then in (
        ("required", "auto"),
        (named, "auto"),
        (some, {**some, "mode": "auto"}),
        ("none", "none"),
        (None, None),
    ):
        asked = ResponsesRequest.model_validate({"model": "m", "input": "x", "tool_choice": choice})
        assert step_request(asked, first).tool_choice == choice
        assert step_request(asked, last).tool_choice == then


@pytest.mark.parametrize(
    ("steps", "seconds", "reason"),
    [
        ([Step(finish="tool_calls", tokens=1, calls=(done(),))] * 4, 0, "max_steps"),
        ([Step(finish="tool_calls", tokens=100, calls=(done(),))], 0, "max_output_tokens"),
        ([Step(finish="tool_calls", tokens=1, calls=(done(),))], 60, "max_seconds"),
        ([], 60, "max_seconds"),
        ([Step(finish="length", tokens=40)], 0, "max_output_tokens"),
        ([Step(finish="content_filter", tokens=4)], 0, "content_filter"),
        ([Step(finish="content_filter", tokens=4, calls=(done(),))], 0, "content_filter"),
        ([Step(finish="abort", tokens=4)], 0, "aborted"),
    ],
)
def test_a_budget_that_is_used_up_ends_it(steps: list[Step], seconds: float, reason: str) -> None:
    wanted = End(status=RunStatus.INCOMPLETE, reason=reason)
    assert next_move(LIMITS, steps, seconds=seconds) == wanted


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_a_call_that_its_answer_ended_in_is_told_and_not_made(finish: str) -> None:
    """Its arguments are valid JSON: the engine closed it."""
    story = call(1, arguments='{"text": "Once upon a time"}')
    move = next_move(LIMITS, [Step(finish=finish, tokens=40, calls=(call(), story))], seconds=0)
    assert isinstance(move, Make)
    # The one before was whole when this one began.
    assert move.calls == (call(),)
    [refused] = move.refused
    assert (refused.place, refused.state, refused.attempts) == (1, CallState.DONE, 0)
    assert refused.is_error
    assert "the answer ended after 40 tokens, within this call" in (refused.output or "")
    answered = Step(finish=finish, tokens=40, calls=(done(), refused))
    assert next_move(LIMITS, [answered], seconds=0) == Ask(max_tokens=40)


@pytest.mark.parametrize("finish", ["content_filter", "abort"])
def test_of_an_answer_that_was_stopped_no_call_is_made(finish: str) -> None:
    move = next_move(LIMITS, [Step(finish=finish, tokens=4, calls=(call(), call(1)))], seconds=0)
    assert isinstance(move, Make)
    assert (move.calls, len(move.refused)) == ((), 2)
    assert all("the answer was stopped" in (each.output or "") for each in move.refused)


def test_what_is_left_of_the_tokens_bounds_a_step() -> None:
    made = Step(finish="tool_calls", tokens=85, calls=(done(),))
    assert next_move(LIMITS, [made], seconds=0) == Ask(max_tokens=15)


def test_calls_beyond_a_budget_are_answered_and_not_made() -> None:
    limits = replace(LIMITS, tool_calls=2, step=replace(LIMITS.step, tool_calls=3))
    asked = Step(finish="tool_calls", tokens=1, calls=tuple(call(n) for n in range(4)))
    move = next_move(limits, [asked], seconds=0)
    assert isinstance(move, Make)
    assert [each.place for each in move.calls] == [0, 1]
    assert [each.place for each in move.refused] == [2, 3]
    assert all(each.state is CallState.DONE and each.is_error for each in move.refused)
    late = next_move(limits, [asked], seconds=60)
    assert isinstance(late, Make)
    assert (late.calls, len(late.refused)) == ((), 4)


def test_a_call_that_is_made_again_isnt_counted_again() -> None:
    limits = replace(LIMITS, tool_calls=1)
    again = call(idempotent=True, attempts=1)
    asked = Step(finish="tool_calls", tokens=1, calls=(again,))
    assert next_move(limits, [asked], seconds=0) == Make(calls=(again,))


def test_a_sub_agent_has_what_its_caller_has_left() -> None:
    own = Limits(steps=10, tokens=1000, seconds=1000, tool_calls=1)
    left = left_for(LIMITS, own, Spent(steps=1, tokens=60, tool_calls=2), 20.5)
    assert (left.steps, left.tokens, left.seconds, left.tool_calls) == (3, 40, 39, 1)
    spent = call(attempts=1, spent=Spent(steps=2, tokens=30, tool_calls=1)).done("ok")
    step = Step(finish="tool_calls", tokens=10, calls=(spent,))
    assert spent_by([step]) == Spent(steps=3, tokens=40, tool_calls=2)


CALLS = st.lists(st.booleans(), max_size=4)


@given(st.lists(CALLS, min_size=1, max_size=6), st.data())
def test_whatever_is_killed_when_no_call_is_doubled_and_no_step_lost(
    steps: list[list[bool]], data: st.DataObject
) -> None:
    """A run that is killed at any write, and where somebody who knows decides, does each step once
    and each call that mayn't be doubled once."""
    limits = Limits(steps=100, tokens=10**6, seconds=10**6, tool_calls=1000)
    script = [*steps, []]
    record: list[Step] = []  # what is durable
    made: list[tuple[int, int]] = []  # what the world saw
    answered = 0
    while True:
        move = next_move(limits, record, seconds=0)
        if isinstance(move, End):
            break
        if isinstance(move, Wait):
            for each in move.calls:
                assert not each.idempotent
                seen = (len(record) - 1, each.place) in made
                _write(record, each.done("seen") if seen else replace(each, state=WAITING))
            continue
        if isinstance(move, Ask):
            if _killed(data):
                continue  # the answer was never written: it is asked again
            calls = tuple(
                call(place, idempotent=idempotent)
                for place, idempotent in enumerate(script[len(record)])
            )
            answered += 1
            record.append(Step(finish="tool_calls", tokens=1, calls=calls))
            continue
        for each in move.calls:
            begun = replace(each, state=CallState.STARTED, attempts=each.attempts + 1)
            _write(record, begun)
            if _killed(data):
                break
            made.append((len(record) - 1, each.place))
            if _killed(data):
                break
            _write(record, begun.done("ok"))
        last = record[-1]
        record[-1] = replace(last, calls=tuple(after_crash(each) for each in last.calls))
    assert answered == len(record)
    assert [[c.idempotent for c in step.calls] for step in record] == script[: len(record)]
    for number, step in enumerate(record):
        for each in step.calls:
            times = made.count((number, each.place))
            assert times >= 1
            assert each.idempotent or times == 1


WAITING = CallState.WAITING


def _killed(data: st.DataObject) -> bool:
    return data.draw(st.integers(0, 9)) == 9


def _write(record: list[Step], call: Call) -> None:
    last = record[-1]
    calls = tuple(call if each.place == call.place else each for each in last.calls)
    record[-1] = replace(last, calls=calls)
