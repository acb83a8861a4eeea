"""FW801 to FW804: agents that a gateway can't have beside each other, so that it doesn't start."""

from collections.abc import Iterator
from typing import ClassVar

from prompts.agent_family import MisfitKind
from prompts.lint.agent_folder import AgentFolder
from prompts.lint.findings import Finding, Severity
from prompts.lint.rule import Rule, Subject


class _MisfitRule(Rule):
    """Tells one kind of what `prompts.agent_family` finds, which is what a gateway refuses."""

    severity = Severity.ERROR
    subjects = (Subject.AGENT,)
    kind: ClassVar[MisfitKind]

    def check_agents(self, folder: AgentFolder) -> Iterator[Finding]:
        for misfit in folder.misfits:
            here = [spot for spot in misfit.spots if spot.path in folder.sources]
            if misfit.kind is self.kind and here:
                spot = here[0]
                yield self.finding(
                    message=sentence(spot.problem),
                    place=folder.place(spot.path, spot.line, spot.column),
                )


def sentence(problem: str) -> str:
    """What a gateway says of a fault, as a message."""
    return f"{problem[:1].upper()}{problem[1:]}."


class AgentNameTaken(_MisfitRule):
    """Two agent files have one name.

    ## What it does
    Finds files of one folder whose `name` is that of another file there, or of an agent that ships
    with Foreword. A version keeps no two apart: a gateway has one agent of each name.

    ## Why it costs
    The gateway doesn't start.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    instructions: Answer from the documents.
    # file: librarian-new.yaml
    name: librarian
    version: 2
    instructions: Answer from the documents, in one sentence.
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 2
    instructions: Answer from the documents, in one sentence.
    ```

    ## Fix safety
    No fix: only you know which of them is meant.

    ## References
    `docs/agents.md`
    """

    code = "FW801"
    name = "agent-name-taken"
    kind = MisfitKind.NAME_TAKEN


class AgentNotFound(_MisfitRule):
    """A tool is an agent that isn't there.

    ## What it does
    Finds `agent: NAME` where no file of the folder, and no agent that ships with Foreword, has that
    name. Files of other folders don't count: a gateway reads one.

    ## Why it costs
    The gateway doesn't start.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: chekcer
    # file: checker.yaml
    name: checker
    version: 1
    instructions: Say whether what was found is right.
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    instructions: Say whether what was found is right.
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/agents.md`
    """

    code = "FW802"
    name = "agent-not-found"
    kind = MisfitKind.NOT_FOUND


class AgentsInACircle(_MisfitRule):
    """Agents have each other as tools, in a circle.

    ## What it does
    Finds agents that lead back to themselves by way of their tools. Each circle is told once.

    ## Why it costs
    The gateway doesn't start: such agents could hand a task on until a budget is used up.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    tools:
      - agent: librarian
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    tools:
      - search
    ```

    ## Fix safety
    No fix: any tool of the circle may be the one to take out.

    ## References
    `docs/agents.md`
    """

    code = "FW803"
    name = "agents-in-a-circle"
    kind = MisfitKind.CIRCLE


class OtherTemplate(_MisfitRule):
    """A sub-agent has another template than the agent that calls it.

    ## What it does
    Finds agents whose `template` isn't spelled as that of an agent which has them as a tool; `chat`
    and `chat@1` are two, since a new version would part them.

    ## Why it costs
    A sub-agent goes on from its caller's prompt, which the engine holds. With another template
    nothing of it could be re-used, so the gateway doesn't start.

    ## Example
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    template: chat@1
    ```

    ## Use instead
    ```yaml
    # file: librarian.yaml
    name: librarian
    version: 1
    template: chat@1
    tools:
      - agent: checker
    # file: checker.yaml
    name: checker
    version: 1
    template: chat@1
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/agents.md`
    """

    code = "FW804"
    name = "sub-agent-other-template"
    kind = MisfitKind.OTHER_TEMPLATE


RULES: tuple[type[Rule], ...] = (AgentNameTaken, AgentNotFound, AgentsInACircle, OtherTemplate)
