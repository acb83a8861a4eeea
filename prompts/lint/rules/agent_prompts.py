"""FW805 to FW807: agents of which runs would be refused, for their template or their tools."""

from collections.abc import Iterator

from prompts.agent import Agent
from prompts.agent_family import family_of
from prompts.agent_template import Unfit, unfit
from prompts.lint.agent_clashes import Clash, clashes
from prompts.lint.agent_folder import AgentFolder
from prompts.lint.findings import Confidence, Finding, Severity
from prompts.lint.rule import Rule, Subject
from prompts.lint.rules.agents import sentence


class AgentTemplateNotFound(Rule):
    """An agent names a template that can't be found.

    ## What it does
    Looks for the `template` of an agent among those that are linted, those that ship with Foreword,
    and those in the folder that `FOREWORD_TEMPLATES` or a `foreword.toml` names, or in a folder
    beside the agents'.

    ## Why it costs
    A gateway that has no such template doesn't start. It may have it from elsewhere, so this is
    only suspected: lint that folder together with the agents.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    template: no-such-chat
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    template: chat
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/agents.md`, `docs/templates.md`
    """

    code = "FW805"
    name = "agent-template-not-found"
    severity = Severity.ERROR
    confidence = Confidence.SUSPECTED
    subjects = (Subject.AGENT,)

    def check_agents(self, folder: AgentFolder) -> Iterator[Finding]:
        for agent in folder.linted:
            if next(folder.templates.named(agent.template), None) is None:
                shipped = ", ".join(folder.templates.shipped)
                yield self.finding(
                    message=f"There is no template {agent.template!r} here, and none ships (those "
                    f"are {shipped}); correct the name, or lint the template's folder too.",
                    place=folder.place_of(agent, "template"),
                )


class AgentTemplateUnfit(Rule):
    """An agent's template can't serve it.

    ## What it does
    Finds agents whose template lacks the variable `conversation` or `instructions` that they need,
    or has a variable for which neither a run nor the agent's `variables` have a value; and
    `variables` that the template doesn't declare, that have another type, or that a run fills
    itself. Where the name may mean several templates, all of them have to be unfit.

    ## Why it costs
    Runs of the agent are refused when they begin, or at the latest after their first call.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    template: answers
    instructions: Answer from the documents.
    tools:
      - search
    # file: answers.yaml
    name: answers
    version: 1
    variables:
      question: {type: text, volatility: turn}
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    template: answers
    instructions: Answer from the documents.
    tools:
      - search
    # file: answers.yaml
    name: answers
    version: 1
    variables:
      instructions: {type: text, volatility: session, optional: true}
      conversation: {type: messages, volatility: turn}
    segments:
      - {id: rules, role: system, volatility: session, text: "{{ instructions }}"}
      - {id: conversation, volatility: turn, messages: conversation}
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/agents.md`, `docs/templates.md`
    """

    code = "FW806"
    name = "agent-template-unfit"
    severity = Severity.ERROR
    subjects = (Subject.AGENT,)

    def check_agents(self, folder: AgentFolder) -> Iterator[Finding]:
        for agent in folder.linted:
            for found in _unfit_for_all(folder, agent):
                yield self.finding(
                    message=sentence(found.problem), place=folder.place_of(agent, found.field)
                )


def _unfit_for_all(folder: AgentFolder, agent: Agent) -> list[Unfit]:
    """What is wrong with the first template that may be meant, unless another one will do."""
    first: list[Unfit] = []
    for template in folder.templates.named(agent.template):
        found = list(unfit(agent, template))
        if not found:
            return []
        first = first or found
    return first


class AgentToolsClash(Rule):
    """Agents that call each other have different tools under one name.

    ## What it does
    Finds, among an agent and all that it may call, built-in tools with different `collections` (the
    model is told of them, in their order, where there are several), agents that are called as a
    built-in tool is, and tools of an MCP server that are `idempotent` in one file only. The order
    of `tools` is no matter: a prompt shows them by name.

    ## Why it costs
    All of them are shown one list of tools, so that a sub-agent's prompt begins as its caller's
    does. There is no such list here, so every run is refused.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - search: {collections: [handbook, letters]}
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    tools:
      - search: {collections: [letters, handbook]}
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - search: {collections: [handbook, letters]}
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    tools:
      - search: {collections: [handbook, letters]}
    ```

    ## Fix safety
    No fix: the first collection is the one that is looked into where the model names none.

    ## References
    `docs/agents.md`
    """

    code = "FW807"
    name = "agent-tools-clash"
    severity = Severity.ERROR
    subjects = (Subject.AGENT,)

    def check_agents(self, folder: AgentFolder) -> Iterator[Finding]:
        told: set[frozenset[tuple[str, int]]] = set()
        called = {tool.agent for agent in folder.agents for tool in agent.sub_agents}
        for agent in folder.agents:
            if agent.name in called:
                continue  # its family is part of its caller's
            for clash in clashes(family_of(agent, folder.by_name)):
                pair = frozenset({
                    (clash.agent.name, clash.entry.line),
                    (clash.other.name, clash.other_entry.line),
                })  # fmt: skip
                if pair not in told:
                    told.add(pair)
                    yield from self._finding(folder, clash)

    def _finding(self, folder: AgentFolder, clash: Clash) -> Iterator[Finding]:
        one = (clash.agent, clash.entry, clash.other)
        other = (clash.other, clash.other_entry, clash.agent)
        for agent, entry, theirs in (one, other):
            if agent.path in folder.sources:
                what = f"The tool {clash.name!r} isn't the one that {theirs.name} has"
                if theirs is agent:
                    what = f"Two tools of this agent are called {clash.name!r}"
                yield self.finding(
                    message=f"{what}, and agents that call each other are shown one list: "
                    f"{clash.why}.",
                    place=folder.place(agent.path, entry.line, entry.column),
                )
                return


RULES: tuple[type[Rule], ...] = (AgentTemplateNotFound, AgentTemplateUnfit, AgentToolsClash)
