"""A server of tools for tests, whose every call leaves a line in a file: so that calls are counted.

`write` does something each time that it is called; `look` may be called as often as one likes.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from app.agents.tools import OutcomeUnknownError, Tool, ToolContext, ToolResult, ToolSpec
from bench.engine_sim import CallConfig
from prompts.agent import Agent, McpTools

AGENT = """
name: writer
version: 1
instructions: Write down what you are told, one line at a time.
tools:
  - mcp: notes
limits:
  steps: 40
  tool_calls: 60
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteTool:
    """Appends its name and arguments to a file, durably, and takes a moment before and after."""

    path: Path
    spec: ToolSpec
    takes_s: float = 0.0

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        await anyio.sleep(self.takes_s)
        with self.path.open("a") as file:
            file.write(f"{self.spec.name} {arguments}\n")
            file.flush()
            os.fsync(file.fileno())
        await anyio.sleep(self.takes_s)
        if "vanish" in arguments:
            raise OutcomeUnknownError("the connection broke")
        if "break" in arguments:
            raise ValueError("it broke")
        if "stay" in arguments:
            await anyio.sleep_forever()
        return ToolResult(text=f"{self.spec.name} did {arguments}; all is well in the harbour.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteTools:
    """The tools of the server `notes`, as `OpensTools` and as a `ToolSource`."""

    path: Path
    takes_s: float = 0.0

    def open(self, entry: McpTools, agent: Agent) -> "NoteTools":
        return self

    async def tools(self) -> Sequence[Tool]:
        return [
            NoteTool(path=self.path, takes_s=self.takes_s, spec=_spec("look", idempotent=True)),
            NoteTool(path=self.path, takes_s=self.takes_s, spec=_spec("write", idempotent=False)),
        ]

    async def close(self) -> None:
        return None


def _spec(name: str, *, idempotent: bool) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=f"{name.capitalize()} a line.",
        parameters={"type": "object", "properties": {"line": {"type": "string"}}},
        idempotent=idempotent,
    )


def calls(*asked: tuple[str, str]) -> tuple[CallConfig, ...]:
    """A step in which the model calls these tools with these lines."""
    return tuple(
        CallConfig(text=f"\n{name} {line} ", name=name, arguments=f'{{"line": "{line}"}}')
        for name, line in asked
    )


def written(path: Path) -> list[str]:
    """The lines, one for each call that was made."""
    return path.read_text().splitlines() if path.exists() else []
