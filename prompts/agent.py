"""What an agent file says, typed and checked. `agent_file` reads them, the gateway runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BUILT_IN = ("search", "read_document")
"""Tools that the gateway has itself."""

LIMITS = {"steps": 1000, "tokens": 10_000_000, "seconds": 86_400, "tool_calls": 10_000}
"""What a run's totals are limited by, and the most that a file may say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Of one step: an answer of the model, and the calls that it asks for."""

    tokens: int = 2048
    seconds: int = 300
    tool_calls: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of a whole run, its sub-agents' included.

    Attributes:
        tokens: that the model writes; those of prompts are mostly re-used.
        seconds: of work; time in which a run waits for a decision doesn't count.
    """

    steps: int = 16
    tokens: int = 16_384
    seconds: int = 900
    tool_calls: int = 64
    step: StepLimits = StepLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInTool:
    """A tool of the gateway's own.

    Attributes:
        collections: those that it may look into; none: the one that the request names.
        passages: most that a search shows; None: as the deployment has it.
    """

    name: str
    collections: tuple[str, ...] = ()
    passages: int | None = None
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """What may be listed once."""
        return "the tool", self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTools:
    """Tools of an MCP server.

    Attributes:
        only: their names; None: all.
        idempotent: which may be called again when nobody knows whether they were.
        trust_hints: whether the server is believed where it says of a tool that it is idempotent,
            or that it only reads.
    """

    server: str
    only: tuple[str, ...] | None = None
    idempotent: tuple[str, ...] = ()
    trust_hints: bool = False
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """What may be listed once."""
        return "the server", self.server


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """Another agent, which goes on from the transcript of the one that calls it."""

    agent: str
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """What may be listed once."""
        return "the agent", self.agent


ToolEntry = BuiltInTool | McpTools | AgentTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent.

    Attributes:
        template: `name` or `name@version`; it takes the conversation and the instructions.
        variables: values for the template's own.
        temperature: None: the engine's.
        parallel_tool_calls: whether one step may call several tools.
        places: line and column, from 1, of what the file says: `template`, `limits.steps`,
            `variables.tone`.
    """

    name: str
    version: int
    path: Path
    description: str = ""
    template: str = "chat"
    variables: Mapping[str, str] = field(default_factory=dict)
    instructions: str = ""
    tools: tuple[ToolEntry, ...] = ()
    limits: Limits = Limits()
    temperature: float | None = None
    parallel_tool_calls: bool = True
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def reference(self) -> str:
        """As in `librarian@2`."""
        return f"{self.name}@{self.version}"

    @property
    def sub_agents(self) -> Sequence[AgentTool]:
        """The other agents among its tools."""
        return [tool for tool in self.tools if isinstance(tool, AgentTool)]

    def place(self, field: str) -> tuple[int, int]:
        """Line and column of what the file says of a field; of the name where it says nothing."""
        return self.places.get(field) or self.places.get("name", (1, 1))

    @property
    def pin(self) -> Path:
        """Where the snapshot of its MCP servers' tools lies."""
        return self.path.with_name(f"{self.name}.tools.json")
