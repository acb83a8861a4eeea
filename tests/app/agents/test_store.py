"""Runs in the database: one gateway's at a time, whatever dies when."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from app.agents.agents import Agents
from app.agents.errors import CallNotWaitingError, RunEndedError, RunNotFoundError
from app.agents.loop import Call, CallState, RunStatus, Spent, Step
from app.agents.records import Parent, RunRecord, StepRecord
from app.agents.rows import said_in_run
from app.agents.store import RunLostError, RunStore
from app.stored.records import StoredResponse, packed, unpacked
from app.stored.responses import ResponseStore
from app.stored.store import ConversationStore
from prompts.agent_library import AgentLibrary
from tests.app.clock import Clock

T, OTHER = "t1", "t2"
RUN = "resp_1"
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "c0", "name": "w", "arguments": "{ }"}


@pytest.fixture
def here(database: sa.Engine, clock: Clock) -> RunStore:
    return RunStore(database, owner="here", lease_s=15, now=clock)


@pytest.fixture
def there(database: sa.Engine, clock: Clock) -> RunStore:
    return RunStore(database, owner="there", lease_s=15, now=clock)


def run(run_id: str = RUN, **fields: object) -> RunRecord:
    made = RunRecord(id=run_id, tenant=T, agent="a", created_at=1.0, request={"model": "m"})
    return replace(made, **fields)  # type: ignore[arg-type]


def call(**fields: object) -> Call:
    made = Call(place=0, call_id="c0", name="w", arguments="{ }", idempotent=False)
    return replace(made, **fields)  # type: ignore[arg-type]


def step(*calls: Call, number: int = 0) -> StepRecord:
    return StepRecord(
        number=number,
        items=[ITEM],
        step=Step(finish="tool_calls", tokens=7, calls=calls),
        report={"prompt_tokens": 5},
        output_ids=packed([1, 2, 3]),
        tokenizer="tok",
    )


def begun(store: RunStore, *calls: Call) -> None:
    store.begin(run())
    store.keep_step(RUN, step(*calls), seconds=1.0, asked=())


def test_a_run_comes_back_as_it_was_written(here: RunStore) -> None:
    here.begin(run(input=[{"type": "message", "id": "m"}]))
    here.keep_step(RUN, step(call()), seconds=2.5, asked=())
    [kept] = here.steps(RUN)
    assert kept == step(call())
    here.keep_call(RUN, 0, call(attempts=1).done("ok"), seconds=3.0)
    [kept] = here.steps(RUN)
    assert [item.item["type"] for item in kept.said()] == ["function_call", "function_call_output"]
    assert (kept.said()[1].item["output"], kept.said()[1].item["call_id"]) == ("ok", "c0")
    assert unpacked(kept.said()[0].output_ids or b"") == (1, 2, 3)
    found = here.find(RUN, tenant=T)
    assert found is not None
    assert (found.seconds, found.status) == (3.0, RunStatus.IN_PROGRESS)
    assert here.find(RUN, tenant=OTHER) is None
    assert here.find("no\x00run") is None
    compacted = run("resp_2", input=[], compacted={"tokens_before": 9, "summary_tokens": None})
    here.begin(compacted)
    assert here.find("resp_2") == compacted


def test_only_its_own_gateway_writes_until_that_is_silent(
    here: RunStore, there: RunStore, clock: Clock
) -> None:
    begun(here, call())
    assert there.left_behind(but=()) == []
    assert there.take(RUN) is None
    with pytest.raises(RunLostError):
        there.keep_call(RUN, 0, call(state=CallState.STARTED), seconds=0)
    clock.now += 10
    assert here.keep_alive([RUN]) == []
    clock.now += 10
    assert there.left_behind(but=()) == []
    clock.now += 10
    assert there.left_behind(but=()) == [RUN]
    assert there.left_behind(but=[RUN]) == []
    assert there.take(RUN) is not None
    for write in (
        lambda: here.keep_call(RUN, 0, call(state=CallState.STARTED), seconds=0),
        lambda: here.keep_step(RUN, step(number=1), seconds=0, asked=()),
        lambda: here.interrupt(RUN, seconds=0),
        lambda: here.end(RUN, RunStatus.COMPLETED, reason=None, seconds=0, response=None),
    ):
        with pytest.raises(RunLostError):
            write()
    here.let_go(RUN)
    assert here.take(RUN) is None, "it let go of what wasn't its own"
    there.let_go(RUN)
    assert here.take(RUN) is not None


def test_when_the_next_run_is_left_behind_is_known_before(
    here: RunStore, there: RunStore, clock: Clock
) -> None:
    assert there.next_free() is None
    here.begin(run())
    here.begin(run("run_2", parent=Parent(run_id=RUN, step=0, place=0)))
    clock.now += 10
    here.begin(run("resp_2"))
    assert there.next_free() == 5
    here.keep_alive([RUN])
    assert there.next_free() == 15
    clock.now += 16
    assert there.next_free() is None, "both are left behind by now"
    assert there.left_behind(but=()) == [RUN, "resp_2"]
    assert there.take(RUN) is not None
    assert here.next_free() == 15
    there.end(RUN, RunStatus.COMPLETED, reason=None, seconds=1, response=None)
    assert here.next_free() is None


def test_a_decision_lets_a_run_and_those_that_it_works_for_go_on(
    here: RunStore, there: RunStore
) -> None:
    agents = Agents(library=AgentLibrary([]), store=here)
    here.begin(run())
    of = Parent(run_id=RUN, step=0, place=0)
    here.begin(run("run_2", parent=of))
    here.keep_step("run_2", step(call(state=CallState.INTERRUPTED)), seconds=0, asked=())
    assert here.interrupt("run_2", seconds=0)
    assert here.interrupt(RUN, seconds=0)
    [waiting] = agents.waiting(agents.run(RUN, tenant=T))
    assert (waiting.run.id, waiting.call.call_id) == ("run_2", "c0")
    with pytest.raises(RunNotFoundError):
        agents.retry(RUN, "c0", tenant=OTHER)
    with pytest.raises(CallNotWaitingError):
        agents.retry(RUN, "c9", tenant=T)
    agents.skip(RUN, "c0", tenant=T, output="it was done")
    with pytest.raises(CallNotWaitingError):
        agents.skip(RUN, "c0", tenant=T, output="twice")
    assert there.left_behind(but=()) == [RUN]
    [kept] = here.steps("run_2")
    assert kept.step.calls == (call().done("it was done"),)
    child = here.child(of)
    assert child is not None
    assert child.status is RunStatus.IN_PROGRESS


def test_whoever_decides_before_the_run_waits_isnt_waited_for(here: RunStore) -> None:
    begun(here, call(state=CallState.INTERRUPTED))
    Agents(library=AgentLibrary([]), store=here).retry(RUN, "c0", tenant=T)
    assert here.interrupt(RUN, seconds=0) is False
    [kept] = here.steps(RUN)
    assert kept.step.calls[0].state is CallState.WAITING


def test_a_cancelled_run_is_told_to_whoever_works_on_it(here: RunStore, there: RunStore) -> None:
    agents = Agents(library=AgentLibrary([]), store=there)
    begun(here, call())
    here.begin(run("run_2", parent=Parent(run_id=RUN, step=0, place=0)))
    assert agents.cancel("run_2", tenant=T).id == RUN, "a sub-agent's is its parent's"
    assert here.keep_alive([RUN]) == [RUN]
    here.begin(run("run_3", parent=Parent(run_id="run_2", step=0, place=0)))
    here.begin(run("run_4", parent=Parent(run_id=RUN, step=0, place=1)))
    here.end("run_4", RunStatus.COMPLETED, reason=None, seconds=1, response=None)
    stopped = here.end(
        RUN, RunStatus.CANCELLED, reason="cancelled", seconds=1, response={"id": RUN}
    )
    assert [each.id for each in stopped] == ["run_2", "run_3"]
    assert {each.status for each in stopped} == {RunStatus.CANCELLED}
    assert stopped == [here.find("run_2"), here.find("run_3")]
    with pytest.raises(RunEndedError):
        agents.cancel(RUN, tenant=T)
    assert agents.unfinished(RUN, tenant=T) == {"id": RUN}


def test_a_conversation_is_the_runs_until_it_ends(
    database: sa.Engine, here: RunStore, clock: Clock
) -> None:
    talks = ConversationStore(database, now=clock)
    talk = talks.create(tenant=T, metadata={})
    talks.begin_turn(talk.id, RUN, tenant=T)
    here.begin(run(conversation_id=talk.id, driven=True))
    talks.keep_alive([(talk.id, RUN)])
    clock.now += 10**6
    with database.connect() as connection:
        taken = sa.text("SELECT turn_until FROM conversations")
        assert connection.execute(taken).scalar_one() > clock.now
    # Nobody goes on with it, and its response is gone.
    assert here.left_behind(but=()) == []
    assert here.given_up() == [RUN]
    here.begin(run("run_2", parent=Parent(run_id=RUN, step=0, place=0)))
    assert [each.id for each in here.abandon(RUN)] == [RUN, "run_2"]
    assert here.abandon(RUN) == []
    assert here.given_up() == []
    talks.begin_turn(talk.id, "resp_2", tenant=T)


def test_what_ended_is_kept_as_long_as_its_response(
    database: sa.Engine, here: RunStore, clock: Clock
) -> None:
    begun(here, call(attempts=1, spent=Spent(steps=1)).done("ok"))
    here.begin(run("resp_2"))
    here.begin(run("run_3", parent=Parent(run_id="resp_2", step=0, place=0)))
    responses = ResponseStore(database, now=clock)
    responses.keep(
        StoredResponse(id=RUN, tenant=T, created_at=1.0, response={"status": "completed"}, input=[])
    )
    for run_id in (RUN, "resp_2"):
        here.end(run_id, RunStatus.COMPLETED, reason=None, seconds=1, response=None)
    # Gone on from, it says what was said with the ids that it was said in.
    [asked, result] = responses.said(RUN, tenant=T)
    assert (unpacked(asked.output_ids or b""), result.item["output"]) == ((1, 2, 3), "ok")
    here.sweep(before=clock.now + 1)
    assert here.find(RUN) is not None
    assert here.find("resp_2") is here.find("run_3") is None
    responses.delete(RUN, tenant=T)
    assert here.find(RUN) is None, "what was said is forgotten with the response"
    with database.connect() as connection:
        assert said_in_run(connection, RUN) is None
