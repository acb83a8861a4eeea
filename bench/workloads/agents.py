"""Agents in a loop: a transcript that grows by a call, its result and the next thought. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from bench.errors import WorkloadError
from bench.workloads.chance import Chance
from bench.workloads.file import JSONObject, WorkloadRequest, answer_of, asked
from bench.workloads.vocabulary import Vocabulary

_PARAMETERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoops:
    """How many agents, and how long their loops; lengths in units of the vocabulary.

    Attributes:
        system_len: of the instructions that all agents have.
        shuffled_tools: the tools come in another order in each request: a fault seen in the wild.
    """

    agents: int = 20
    turns: int = 8
    tools: int = 12
    system_len: int = 600
    task_len: int = 60
    result_len: int = 150
    output_len: int = 48
    shuffled_tools: bool = False


def agent_loops(spec: AgentLoops, vocabulary: Vocabulary, seed: int) -> Iterator[WorkloadRequest]:
    """All agents' turns, agent after agent; each agent is a session."""
    tools = [
        _tool(number, vocabulary, Chance(seed, f"tool/{number}")) for number in range(spec.tools)
    ]
    system = {
        "role": "system",
        "content": vocabulary.text(Chance(seed, "system"), spec.system_len),
    }
    for agent in range(spec.agents):
        source = Chance(seed, f"agent/{agent}")
        task = {"role": "user", "content": vocabulary.text(source, spec.task_len)}
        yield from _loop(spec, [system, task], tools, vocabulary, source, f"agent-{agent}")


def _loop(
    spec: AgentLoops,
    messages: list[JSONObject],
    tools: Sequence[JSONObject],
    vocabulary: Vocabulary,
    source: Chance,
    session: str,
) -> Iterator[WorkloadRequest]:
    for turn in range(spec.turns):
        request_id = f"{session}-{turn}"
        shown = source.sample(tools, len(tools)) if spec.shuffled_tools else tools
        body: JSONObject = {"messages": messages} | ({"tools": shown} if shown else {})
        yield asked(body, id=request_id, session=session, turn=turn, max_tokens=spec.output_len)
        messages.append(_call(request_id, source.pick(tools) if tools else None))
        messages.append(
            {
                "role": "tool" if tools else "user",
                "content": vocabulary.text(source, spec.result_len),
            }
            | ({"tool_call_id": f"call-{request_id}"} if tools else {})
        )


def _call(request_id: str, tool: JSONObject | None) -> JSONObject:
    """What the model really said, and the call of a tool that it is taken to have made."""
    if tool is None:
        return answer_of(request_id)
    call = {
        "id": f"call-{request_id}",
        "type": "function",
        "function": {"name": tool["function"]["name"], "arguments": json.dumps({"of": request_id})},
    }
    return answer_of(request_id) | {"tool_calls": [call]}


def _tool(number: int, vocabulary: Vocabulary, source: Chance) -> JSONObject:
    properties = {
        f"{source.pick(vocabulary.words)}_{at}": {
            "type": "string",
            "description": vocabulary.text(source, 8),
        }
        for at in range(_PARAMETERS)
    }
    return {
        "type": "function",
        "function": {
            "name": f"{source.pick(vocabulary.words)}_{number}",
            "description": vocabulary.text(source, 16),
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": sorted(properties),
            },
        },
    }


def recorded_loops(
    rows: Sequence[Any], vocabulary: Vocabulary, *, agents: int | None, max_output: int
) -> Iterator[WorkloadRequest]:
    """Trajectories as tau-bench keeps them (`traj`): each message of the model is a request.

    The recorded calls and results stand in later turns, since a result belongs to its call.

    Raises:
        WorkloadError: a row isn't a trajectory.
    """
    for number, row in enumerate(rows[:agents]):
        said = row.get("traj") if isinstance(row, Mapping) else None
        if not isinstance(said, list):
            raise WorkloadError(f"trajectory {number}", "has no list called `traj`")
        turns = count()
        for at, message in enumerate(said):
            if at == 0 or message.get("role") != "assistant":
                continue
            turn = next(turns)
            yield asked(
                {"messages": [_clean(part) for part in said[:at]]},
                id=f"loop-{number}-{turn}",
                session=f"loop-{number}",
                turn=turn,
                max_tokens=min(max(1, _length(message, vocabulary)), max_output),
            )


def _clean(message: JSONObject) -> JSONObject:
    """Only what OpenAI's bodies have."""
    kept = ("role", "content", "tool_calls", "tool_call_id", "name")
    made = {key: message[key] for key in kept if message.get(key) is not None}
    if message["role"] == "tool":
        made.pop("name", None)
    return made if "tool_calls" in made else made | {"content": message.get("content") or ""}


def _length(message: JSONObject, vocabulary: Vocabulary) -> int:
    said = message.get("content") or ""
    called = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
    return vocabulary.count(said) + vocabulary.count(called)
