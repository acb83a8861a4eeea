"""What can go wrong with MCP servers.

```
GatewayError
└── McpError                     (server)
    ├── McpUnknownServerError    (known)     no such server in the settings
    ├── McpUnavailableError      (problem, said) not there; nothing was asked of it
    ├── McpOutcomeUnknownError   (problem)   it was asked, and didn't answer: OutcomeUnknownError
    ├── McpAnswerError           (problem)   it answered with an error
    ├── McpToolsError            (problem)   a list of tools that no model may be shown
    ├── McpPinError              (agent, problem) no pin, or a file that isn't one
    └── McpToolsChangedError     (agent, differences) its tools aren't those of the pin
```
"""

from collections.abc import Iterable, Sequence

from app.agents.tools import OutcomeUnknownError
from app.errors import GatewayError


class McpError(GatewayError):
    """Root of them; `server` is its name in the settings."""

    def __init__(self, server: str, sentence: str) -> None:
        super().__init__(sentence)
        self.server = server


class McpUnknownServerError(McpError):
    """No such server in the settings."""

    def __init__(self, server: str, known: Iterable[str]) -> None:
        self.known = tuple(sorted(known))
        names = ", ".join(self.known) or "none"
        super().__init__(
            server,
            f"there is no MCP server {server!r}; the settings declare: {names} "
            "(FOREWORD_MCP__SERVERS)",
        )


class McpUnavailableError(McpError):
    """It isn't there; nothing was asked of it.

    Attributes:
        said: the end of what its program wrote to stderr, for whoever runs it.
    """

    def __init__(self, server: str, problem: str, *, said: str | None = None) -> None:
        super().__init__(server, f"the MCP server {server!r} isn't there: {problem}")
        self.problem = problem
        self.said = said

    @property
    def told(self) -> str:
        return f"the MCP server {self.server!r} isn't there; try again in a few seconds"


class McpOutcomeUnknownError(McpError, OutcomeUnknownError):
    """It was asked, and didn't answer: nobody knows what it did."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, f"the MCP server {server!r} didn't answer: {problem}")
        self.problem = problem


class McpAnswerError(McpError):
    """It answered with an error, or with something that isn't taken."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, f"the MCP server {server!r} answered: {problem}")
        self.problem = problem


class McpToolsError(McpError):
    """A list of tools that no model may be shown."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, f"the tools of the MCP server {server!r} are refused: {problem}")
        self.problem = problem


class McpPinError(McpError):
    """An agent has no pin for a server that it uses, or the pin is at fault."""

    def __init__(self, server: str, agent: str, problem: str) -> None:
        super().__init__(
            server,
            f"the agent {agent!r} has no usable pin of the MCP server {server!r}: {problem}; look "
            f"at what `foreword agents pin {agent}` shows, and run it",
        )
        self.agent = agent
        self.problem = problem

    @property
    def told(self) -> str:
        return f"the agent {self.agent!r} has no usable pin of the MCP server {self.server!r}"


class McpToolsChangedError(McpError):
    """A server's tools aren't those that the agent is pinned to."""

    def __init__(self, server: str, agent: str, differences: Sequence[str]) -> None:
        super().__init__(
            server,
            f"the tools of the MCP server {server!r} aren't those that agent {agent!r} is pinned "
            f"to: {'; '.join(differences)}; `foreword agents pin {agent}` takes the new ones",
        )
        self.agent = agent
        self.differences = tuple(differences)

    @property
    def told(self) -> str:
        return (
            f"the tools of the MCP server {self.server!r} aren't those that agent {self.agent!r} "
            f"is pinned to: {'; '.join(self.differences)}; the operator has to look at them"
        )
