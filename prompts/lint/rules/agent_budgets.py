"""FW808 and FW809: what an agent's file says and no run of it can come to."""

from collections.abc import Iterator, Mapping

from prompts.agent import Agent
from prompts.lint.agent_folder import AgentFolder
from prompts.lint.findings import Finding, Severity
from prompts.lint.rule import Rule, Subject

Way = tuple[str, ...]


class AgentBudgetTooSmall(Rule):
    """An agent's limits leave no room for what its tools take.

    ## What it does
    Finds limits with which calls can never be made, or never be answered after. A call takes two
    steps: one that asks for it, and one that answers. A sub-agent's steps and calls count in its
    caller's `steps` and `tool_calls`, so that one takes three; an agent that is called gets what is
    left of its caller's, by the way that leaves it most.

    ## Why it costs
    The model is shown tools, asks for them, and is told that the budget is used up; the run ends
    without an answer.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: checker
    limits:
      steps: 2
    # file: checker.yaml
    name: checker
    version: 1
    tools:
      - search
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: checker
    limits:
      steps: 8
    # file: checker.yaml
    name: checker
    version: 1
    tools:
      - search
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/agents.md`
    """

    code = "FW808"
    name = "agent-budget-too-small"
    subjects = (Subject.AGENT,)

    def check_agents(self, folder: AgentFolder) -> Iterator[Finding]:
        for agent in folder.linted:
            for limit, lack in _LACKS.items():
                own = getattr(agent.limits, limit)
                problem = lack(agent, own) or _handed_on(folder.by_name, agent, limit)
                if problem is not None:
                    yield self.finding(
                        message=f"With `{limit}: {own}` {problem}; allow more, or take tools out.",
                        place=folder.place_of(agent, f"limits.{limit}"),
                    )


def _lack_of_steps(agent: Agent, steps: int) -> str | None:
    if agent.tools and steps < 2:
        return "no tool of it is ever called: its only step is the one that asks for them"
    if agent.sub_agents and steps < 3:
        names = ", ".join(tool.agent for tool in agent.sub_agents)
        return f"it can't answer after a call of {names}: a sub-agent's step counts, too"
    return None


def _lack_of_calls(agent: Agent, calls: int) -> str | None:
    if agent.tools and calls < 1:
        return "no tool of it is ever called"
    return None


# What an agent lacks that has so many left; None: it has enough.
_LACKS = {"steps": _lack_of_steps, "tool_calls": _lack_of_calls}


def _handed_on(agents: Mapping[str, Agent], root: Agent, limit: str) -> str | None:
    """What the first agent lacks that is called from here, and that has enough by itself."""
    for name, (left, way) in _left(agents, root, limit).items():
        agent = agents[name]
        problem = _LACKS[limit](agent, left)
        if problem is None or _LACKS[limit](agent, getattr(agent.limits, limit)) is not None:
            continue
        # Where it lacks them for the next agent on the way, too, that one's file is told.
        nearer = _left(agents, agents[way[1]], limit)[name][0] if len(way) > 2 else None
        if nearer is None or _LACKS[limit](agent, nearer) is None:
            return f"{name} has {left} left when it is called ({' → '.join(way)}), so {problem}"
    return None


def _left(agents: Mapping[str, Agent], root: Agent, limit: str) -> dict[str, tuple[int, Way]]:
    """What each agent has at most that a run of `root` comes to, and by which way, nearest first.

    Source: `app.agents.loop.left_for`.
    """
    left: dict[str, tuple[int, Way]] = {root.name: (getattr(root.limits, limit), (root.name,))}
    pending = [root]
    while pending:
        agent = pending.pop(0)
        has, way = left[agent.name]
        for tool in agent.sub_agents:
            other = agents.get(tool.agent)
            if other is None or has < 1:
                continue
            rest = min(getattr(other.limits, limit), has - 1)
            if other.name not in left or rest > left[other.name][0]:
                left[other.name] = (rest, (*way, other.name))
                pending.append(other)
    return left


class SubAgentSettingUnused(Rule):
    """A sub-agent's file sets what its caller's counts for.

    ## What it does
    Finds `variables`, `temperature` and `parallel_tool_calls` of agents that are another one's tool
    and say something else than that one.

    ## Why it costs
    A sub-agent goes on from its caller's prompt, and is asked as its caller is. What its own file
    says of these counts only where a request names it itself.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    temperature: 0.7
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    temperature: 0
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    temperature: 0
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    temperature: 0
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/agents.md`
    """

    code = "FW809"
    name = "sub-agent-setting-unused"
    severity = Severity.NOTE
    subjects = (Subject.AGENT,)

    def check_agents(self, folder: AgentFolder) -> Iterator[Finding]:
        for caller in folder.by_name.values():
            for tool in caller.sub_agents:
                agent = folder.by_name.get(tool.agent)
                if agent is not None and agent.path in folder.sources:
                    for field, counts in _unused(agent, caller):
                        yield self.finding(
                            message=f"When {caller.name} calls this agent, {caller.name}'s "
                            f"{field} counts ({counts}), and not this one; give both the same.",
                            place=folder.place_of(agent, field),
                        )


def _unused(agent: Agent, caller: Agent) -> Iterator[tuple[str, str]]:
    """Fields of an agent that count for nothing when another one calls it, and what does."""
    for name, value in agent.variables.items():
        theirs = caller.variables.get(name)
        if value != theirs:
            yield f"variables.{name}", "none" if theirs is None else repr(theirs)
    if agent.temperature is not None and agent.temperature != caller.temperature:
        engine_s = caller.temperature is None
        yield "temperature", "the engine's" if engine_s else f"{caller.temperature:g}"
    parallel = caller.parallel_tool_calls
    if "parallel_tool_calls" in agent.places and agent.parallel_tool_calls != parallel:
        yield "parallel_tool_calls", str(parallel).lower()


RULES: tuple[type[Rule], ...] = (AgentBudgetTooSmall, SubAgentSettingUnused)
