"""What a tool of an agent is. Built-in tools, other agents and MCP servers all take this form.

A tool's answer is kept byte for byte: it becomes an item of the run's transcript, and with that a
part of every later prompt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from prompts.canonical import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What the model is told of a tool, and what the loop has to know.

    Attributes:
        name: as the model calls it; unique in an agent.
        parameters: a JSON schema of an object.
        idempotent: whether to call it twice does what to call it once does. Only such a call is
            made again by itself when nobody knows whether it was made.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    idempotent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The call that a tool answers.

    Attributes:
        tenant: whose run it is; a tool shows it nothing of another one's.
        run_id: the response that the run is.
        call_id: the call, as the model's item names it; one that is made again has the same.
        deadline: when the run's time is over, on the event loop's clock; None: never.
    """

    tenant: str
    run_id: str
    call_id: str
    deadline: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the model is shown; an error is for the model to deal with, it doesn't end the run."""

    text: str
    is_error: bool = False


class OutcomeUnknownError(Exception):
    """A call was begun, and nobody can know whether it was made: the connection broke, say.

    One of an idempotent tool is answered with the error; of any other it is shown as interrupted,
    and somebody has to decide.
    """


class Tool(Protocol):
    """One tool. What it raises ends the call with an error, for the model to see; a fault of the
    gateway's own should be none of them."""

    @property
    def spec(self) -> ToolSpec:
        """What it is; the same for as long as it lives."""
        ...

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        """Do it. `arguments` is the model's JSON text, byte for byte, and may be anything."""
        ...


class ToolSource(Protocol):
    """Where tools come from: a server, opened before and closed after its use."""

    async def tools(self) -> Sequence[Tool]:
        """All that it offers, by name in order."""
        ...

    async def close(self) -> None:
        """Let go of it; no call follows."""
        ...
