"""Responses of runs that haven't ended, or ended without one that is stored. Pure."""

from collections.abc import Sequence
from typing import Any

from app.agents.records import RunRecord, StepRecord
from app.agents.totals import summed_block

JSONObject = dict[str, Any]


def unfinished_response(run: RunRecord, steps: Sequence[StepRecord]) -> JSONObject:
    """What there is of a response that isn't stored: its run goes on, or ended without one."""
    if run.response is not None:
        return run.response
    status = "in_progress" if not run.status.is_end else run.status.value
    return {
        "id": run.id,
        "object": "response",
        "created_at": int(run.created_at),
        "status": status,
        "background": run.driven,
        "error": None,
        "incomplete_details": None,
        "metadata": run.request.get("metadata") or {},
        "model": run.request.get("model"),
        "output": [dict(each.item) for step in steps for each in step.said()],
        "parallel_tool_calls": run.request.get("parallel_tool_calls") is not False,
        "conversation": {"id": run.conversation_id} if run.conversation_id else None,
        "previous_response_id": run.request.get("previous_response_id"),
        "tool_choice": run.request.get("tool_choice") or "auto",
        "tools": [],
        "usage": None,
        "foreword": summed_block([step.report for step in steps])
        | {"agent": {"name": run.agent, "status": run.status.value}},
    }
