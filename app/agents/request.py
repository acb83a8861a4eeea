"""Requests for agents: which one is meant, and what of a request an agent decides itself. Pure."""

from typing import Any

from app.agents.tools import ToolSpec
from app.errors import InvalidRequestError
from app.responses.bodies import FunctionTool, PromptReference, ResponsesRequest
from prompts.agent import Agent, Limits

PREFIX = "agent:"
_MODEL = "default"


def agent_of(request: ResponsesRequest) -> str | None:
    """The agent that a request asks for: `model: "agent:NAME"`, or `foreword.agent`.

    Raises:
        InvalidRequestError: two different ones.
    """
    options = request.foreword
    named = options.agent if options is not None else None
    if not request.model.startswith(PREFIX):
        return named
    by_model = request.model.removeprefix(PREFIX)
    if named not in (None, by_model):
        problem = f"the model names the agent {by_model!r} and foreword.agent {named!r}: give one"
        raise InvalidRequestError(problem, param="foreword.agent")
    return by_model


def check_agent_request(request: ResponsesRequest) -> None:
    """
    Raises:
        InvalidRequestError: it says what an agent's file says.
    """
    options = request.foreword
    given = {
        "tools": bool(request.tools),
        "prompt": request.prompt is not None,
        "foreword.template": options is not None and options.template is not None,
        "foreword.mode": options is not None and options.mode is not None,
        "foreword.variables": options is not None and bool(options.variables),
    }
    for name, is_given in given.items():
        if is_given:
            problem = f"{name}: an agent's file says that; leave it out"
            raise InvalidRequestError(problem, param=name)


def limits_of(agent: Agent, request: ResponsesRequest) -> Limits:
    """The agent's limits; a request may ask for less."""
    limits = agent.limits
    changed: dict[str, Any] = {}
    if request.max_output_tokens is not None:
        changed["tokens"] = min(limits.tokens, request.max_output_tokens)
    calls = request.extras.get("max_tool_calls")
    if isinstance(calls, int) and not isinstance(calls, bool) and calls >= 0:
        changed["tool_calls"] = min(limits.tool_calls, calls)
    return Limits(
        **{name: changed.get(name, getattr(limits, name)) for name in _TOTALS}, step=limits.step
    )


_TOTALS = ("steps", "tokens", "seconds", "tool_calls")


def step_request(
    request: ResponsesRequest, agent: Agent, specs: tuple[ToolSpec, ...]
) -> ResponsesRequest:
    """What each step asks the model: the client's request, with what the agent's file says."""
    tools = [
        FunctionTool(
            type="function",
            name=spec.name,
            description=spec.description,
            parameters=dict(spec.parameters),
        )
        for spec in specs
    ]
    options = request.foreword
    new: dict[str, Any] = {
        "model": _MODEL if request.model.startswith(PREFIX) else request.model,
        "input": [],
        "stream": True,
        "background": None,
        "instructions": "\n\n".join(
            text.strip() for text in (agent.instructions, request.instructions) if text
        )
        or None,
        "tools": tools,
        "prompt": _prompt(agent),
    }
    if options is not None:
        looks = dict.fromkeys(("agent", "collection", "filters", "passages", "score_threshold"))
        new["foreword"] = options.model_copy(update={**looks, "groups": [], "rerank": False})
    if request.temperature is None:
        new["temperature"] = agent.temperature
    if not agent.parallel_tool_calls:
        new["parallel_tool_calls"] = False
    return request.model_copy(update=new)


def _prompt(agent: Agent) -> PromptReference:
    name, _, version = agent.template.partition("@")
    return PromptReference(id=name, version=version or None, variables=dict(agent.variables))


def task_of(agent: Agent, task: str) -> str:
    """What a sub-agent is told after all that was said before."""
    return "\n\n".join(text for text in (agent.instructions.strip(), task) if text)
