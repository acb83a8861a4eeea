"""On the real engine: twelve steps of an agent re-use all that the engine holds."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from app.agents.tools import Tool, ToolContext, ToolResult, ToolSpec
from app.settings import AgentsSettings
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from prompts.agent import Agent, McpTools
from tests.conftest import TINY_POOL_TOKENS, RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PAGE_TOKENS = 16
STEPS = 12
AGENT = f"""
name: harbourmaster
version: 1
instructions: Look up what each port costs, one port at a time.
tools: [{{mcp: ports}}]
temperature: 0
parallel_tool_calls: false
limits: {{steps: {STEPS}, step: {{tokens: 96}}}}
"""


@dataclass(frozen=True, slots=True)
class PriceTool:
    """A tool that a model of random weights calls rightly: it has little choice."""

    spec = ToolSpec(
        name="price",
        description="Tells what a crossing costs.",
        parameters={
            "type": "object",
            "properties": {"port": {"type": "string", "enum": ["Arvik", "Brenna", "Holm"]}},
            "required": ["port"],
            "additionalProperties": False,
        },
        idempotent=True,
    )

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        return ToolResult(text=f"{arguments} costs five crowns; children pay half of it.")


class Ports:
    """The server of that tool."""

    def open(self, entry: McpTools, agent: Agent) -> "Ports":
        return self

    async def tools(self) -> Sequence[Tool]:
        return [PriceTool()]

    async def close(self) -> None:
        return None


@pytest.fixture(scope="module")
def engine(
    engine_cache: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealEngine]:
    """One that reads calls of tools out of what the model says, as the run's shared one doesn't.

    Its grammars take no white space between JSON's tokens: random weights would end in it.
    """
    parsing = ("--tool-call-parser", "pythonic", "--constrained-json-disable-any-whitespace")
    settings = StackSettings(
        home=tmp_path_factory.mktemp("stack"),
        cache=engine_cache,
        base_env=dict(os.environ),
        model=str(tiny_model),
        engine=EngineOptions(pool_tokens=TINY_POOL_TOKENS, arguments=parsing),
        tiers=None,
        gateway=False,
        cpu=True,
    )
    with start_stack(settings, say=print) as stack:
        yield RealEngine(url=stack.engine_url, model_path=tiny_model, stack=stack)


def counted(engine: RealEngine, name: str) -> float:
    """The engine's own counter, over all its labels."""
    text = httpx.get(f"{engine.url}/metrics", trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith(f"sglang:{name}")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_twelve_steps_re_use_all_but_what_is_new(engine: RealEngine, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "harbourmaster.yaml").write_text(AGENT)
    settings = gateway_settings(tmp_path / "home", engine.url, tokenizer=engine.model_path)
    settings = settings.model_copy(update={"agents": AgentsSettings(folder=folder)})
    with running_gateway(settings, Ports()) as url:
        wait_until_ready(url)
        before = counted(engine, "cached_tokens_total")
        with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            answer: Any = client.responses.create(
                model="agent:harbourmaster",
                input="What do the crossings cost? Ask for one port after the other.",
                tool_choice="required",
            )
        by_engine = counted(engine, "cached_tokens_total") - before
    assert answer.incomplete_details is not None, answer.model_dump_json()
    assert answer.foreword["agent"]["reason"] == "max_steps"  # type: ignore[attr-defined]
    kinds = [item.type for item in answer.output]
    assert kinds == ["function_call", "function_call_output"] * STEPS
    steps = answer.foreword["steps"]
    assert len(steps) == STEPS
    ideal = sum(step["ideal_tokens"] for step in steps[1:])
    cached = sum(step["cached_tokens"] for step in steps[1:])
    assert cached >= 0.99 * ideal > 0
    assert by_engine >= cached
    for earlier, later in pairwise(steps):
        # What was answered, too: its last token was never an input; then whole pages.
        held = earlier["prompt_tokens"] + earlier["output_tokens"] - 1
        assert later["cached_tokens"] >= held - PAGE_TOKENS
