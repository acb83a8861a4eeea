"""What `/metrics` says of agents and their tools."""

import time

import httpx

from app.agents.counts import AgentCounts, CallOutcome
from app.metrics import Metrics
from app.series import page
from bench.engine_sim import CallConfig
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import AGENT, calls
from tests.app.agents.test_runs import PATIENCE_S, until_written
from tests.app.test_series import of, samples

SHORT = """
name: writer
version: 1
instructions: Be short.
tools: [{mcp: notes}]
limits: {steps: 4, tool_calls: 3}
"""
BOSS = """
name: boss
version: 1
instructions: Have others write.
tools: [{agent: writer}, {mcp: notes}]
"""


def ask(harbour: Harbour, **fields: object) -> str:
    given = {"model": "agent:writer", "input": "Write."} | fields
    return str(harbour.client.responses.create(**given).id)  # type: ignore[call-overload]


def counted(here: Harbour, family: str, label: str) -> dict[tuple[str, str], float]:
    """By the value of a label, and the outcome."""
    seen = samples(here.http.get("/metrics").content)
    return {
        (dict(labels)[label], dict(labels).get("outcome", "")): value
        for (name, labels), value in seen.items()
        if name == family
    }


def until_counted(here: Harbour, family: str, expected: dict[tuple[str, str], float]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (now := counted(here, family, "agent")) != expected:
        assert time.monotonic() < deadline, now
        time.sleep(0.02)


def test_runs_steps_and_calls_are_counted_by_what_became_of_them(harbour: Opens) -> None:
    script = (
        calls(("look", "one"), ("write", "break two"), ("nothing", "three")),
        calls(("write", "four"), ("look", "five")),
    )
    with harbour(script, SHORT) as here:
        ask(here)
        assert counted(here, "foreword_agent_runs_total", "agent") == {("writer", "completed"): 1}
        assert counted(here, "foreword_agent_steps_total", "agent") == {("writer", ""): 3}
        assert counted(here, "foreword_tool_calls_total", "tool") == {
            ("look", "ok"): 1,
            ("write", "error"): 1,
            ("other", "no_such_tool"): 1,
            ("write", "ok"): 1,
            ("look", "refused"): 1,
        }
        made = counted(here, "foreword_tool_seconds_count", "tool")
        assert made == {("look", ""): 1, ("write", ""): 2}
        assert counted(here, "foreword_agent_run_seconds_count", "agent") == {("writer", ""): 1}


def test_a_run_that_waits_is_counted_and_so_is_its_end(harbour: Opens) -> None:
    task = CallConfig(text="\nwriter on it ", name="writer", arguments='{"task": "Write."}')
    with harbour(((task,), calls(("write", "vanish"))), AGENT, BOSS) as here:
        path = f"/foreword/agents/runs/{ask(here, model='agent:boss')}"
        runs = counted(here, "foreword_agent_runs_total", "agent")
        assert runs == {("boss", "interrupted"): 1, ("writer", "interrupted"): 1}
        tools = counted(here, "foreword_tool_calls_total", "tool")
        assert tools == {("writer", "interrupted"): 1, ("write", "interrupted"): 1}
        here.http.post(f"{path}/cancel").raise_for_status()
        ended = {("boss", "cancelled"): 1, ("writer", "cancelled"): 1}
        until_counted(here, "foreword_agent_runs_total", runs | ended)


def test_a_run_of_the_background_that_is_given_up_is_counted(harbour: Opens) -> None:
    with harbour((calls(("write", "stay")),), SHORT) as here:
        run_id = ask(here, background=True)
        until_written(here, 1)
        here.client.responses.cancel(run_id)
        until_counted(here, "foreword_agent_runs_total", {("writer", "cancelled"): 1})


def test_labels_are_bounded() -> None:
    made = Metrics()
    counts = AgentCounts(made._counts, made._histogram)
    for number in range(1_000):
        counts.stepped(f"agent {number}")
        counts.called(f"tool {number}", CallOutcome.OK, 0.1)
    read = samples(page(line for family in made.families for line in family.lines()))
    assert read[of("foreword_agent_steps_total", agent="other")] == 900
    assert read[of("foreword_tool_calls_total", tool="other", outcome="ok")] == 800
    assert read[of("foreword_tool_seconds_count", tool="other")] == 800


def test_without_servers_no_states_are_told(plain: Harbour) -> None:
    assert "foreword_mcp_server_state{" not in httpx.get(f"{plain.url}/metrics").text
