"""Agents and runs as routes tell them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from app.agents.agents import WaitingCall
from app.agents.loop import Call, CallState, RunStatus
from app.agents.records import RunRecord, StepRecord
from app.agents.totals import summed_block
from prompts.agent import Agent, AgentTool, BuiltInTool, McpTools

JSONObject = dict[str, Any]


def agent_object(agent: Agent) -> JSONObject:
    """An agent; its instructions are the operator's own."""
    return {
        "id": agent.name,
        "object": "foreword.agent",
        "version": agent.version,
        "description": agent.description,
        "template": agent.template,
        "tools": [_tool(entry) for entry in agent.tools],
        "limits": asdict(agent.limits),
    }


def run_object(
    run: RunRecord,
    steps: Sequence[StepRecord] = (),
    waiting: Iterable[WaitingCall] = (),
    children: Iterable[RunRecord] = (),
) -> JSONObject:
    """A run as it stands."""
    return {
        "id": run.id,
        "object": "foreword.agent.run",
        "agent": run.agent,
        "status": run.status.value,
        "reason": run.reason,
        "created_at": int(run.created_at),
        "ended_at": None if run.ended_at is None else int(run.ended_at),
        "conversation_id": run.conversation_id,
        "seconds": round(run.seconds, 3),
        "waiting": [
            {
                "run_id": each.run.id,
                "call_id": each.call.call_id,
                "name": each.call.name,
                "arguments": each.call.arguments,
            }
            for each in waiting
        ],
        "sub_agents": [
            {"id": child.id, "agent": child.agent, "status": child.status.value}
            for child in children
        ],
        **summed_block([step.report for step in steps]),
        "calls": [
            {"step": step.number, **_call(run, call)} for step in steps for call in step.step.calls
        ],
    }


def _call(run: RunRecord, call: Call) -> JSONObject:
    state = call.state
    if run.status in (RunStatus.CANCELLED, RunStatus.FAILED) and state is CallState.STARTED:
        state = CallState.INTERRUPTED
    return {
        "call_id": call.call_id,
        "name": call.name,
        "state": state.value,
        "attempts": call.attempts,
        "is_error": call.is_error,
    }


def _tool(entry: BuiltInTool | McpTools | AgentTool) -> str:
    match entry:
        case BuiltInTool():
            return entry.name
        case McpTools():
            return f"mcp:{entry.server}"
        case AgentTool():
            return f"agent:{entry.agent}"
