"""Chat templates of five well-known models: what a long conversation and an agent's loop re-use of
all that could be re-used, output tokens included, on a simulated engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from bench.engine_sim import CallConfig, ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from prompts import load_tokenizer
from prompts.tool_calls import call_shape
from tests.chat_template_models import MODELS, SHOWS_NO_TOOLS, STRIPS_REASONING, Model
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import write_model_tokenizer
from tests.tokenizer_packages import RealTokenizers

PAGE_TOKENS = 16
TURNS, STEPS = 20, 12
ARGUMENTS = '{"port": "Arvik", "passengers": 2}'
RESULT = '{"price":  12.50, "currency": "EUR"}\n'
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "price",
            "description": "Tells what a crossing costs.",
            "parameters": {
                "type": "object",
                "properties": {"port": {"type": "string"}, "passengers": {"type": "integer"}},
            },
        },
    }
]
MORE: list[Any] = [
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
]


@pytest.fixture(scope="module", params=sorted(MODELS))
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(
    model: str, real_tokenizers: RealTokenizers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    source = (real_tokenizers.templates() / f"{MODELS[model].file}.jinja").read_text("utf-8")
    home = tmp_path_factory.mktemp(model)
    folder = write_model_tokenizer(home / "model", source, stop=MODELS[model].stop)
    with answering(folder, MODELS[model], home) as made:
        yield made


@contextmanager
def answering(folder: Path, model: Model, home: Path) -> Iterator[openai.OpenAI]:
    shape = call_shape(load_tokenizer(folder))
    assert shape is not None
    text = f"{shape.begin('price')}{ARGUMENTS}{shape.after}"
    config = SimulatorConfig(
        model_path=folder,
        opening=model.opening,
        call=CallConfig(text=text, name="price", arguments=ARGUMENTS),
        clock=ClockConfig(speedup=200),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
    with (
        SimulatorThread(config) as engine,
        running_gateway(gateway_settings(home, engine.url)) as url,
    ):
        wait_until_ready(url)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as made:
            yield made


class Counts:
    """What could be re-used of prompts that go on from one another, and what was."""

    def __init__(self) -> None:
        self.ideal = self.cached = self._held = 0
        self.losses: list[dict[str, Any]] = []

    def add(self, answer: Any) -> None:
        """All that the engine held but for the last token, which it never computed, in pages; or
        up to where the chat template writes something else now."""
        stays = self._held - 1
        if (lost := answer.foreword.get("inherent")) is not None:
            assert lost["of"] == self._held
            self.losses.append(lost)
            stays = lost["token"]
        if self._held:
            self.ideal += stays // PAGE_TOKENS * PAGE_TOKENS
            self.cached += answer.foreword["cached_tokens"]
        self._held = answer.usage.total_tokens


def say(client: openai.OpenAI, messages: list[Any], **fields: Any) -> Any:
    answer = client.chat.completions.create(
        model="default", messages=messages, max_tokens=120, temperature=0, **fields
    )
    messages.append(answer.choices[0].message.model_dump(exclude_none=True))
    return answer


def test_a_conversation_re_uses_all_that_its_template_lets_it(
    client: openai.OpenAI, model: str
) -> None:
    messages: list[Any] = [{"role": "system", "content": "Answer briefly."}]
    counts = Counts()
    for number in range(TURNS):
        messages.append({"role": "user", "content": f"When does ferry {number} leave?"})
        counts.add(say(client, messages))
    assert counts.cached >= 0.99 * counts.ideal > 0
    if model == STRIPS_REASONING:
        assert len(counts.losses) == TURNS - 1
        assert all("reasoning" in loss["cause"] for loss in counts.losses)
    else:
        assert not counts.losses


def test_a_tool_loop_re_uses_all_that_it_grows_by(client: openai.OpenAI) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Use the tools."},
        {"role": "user", "content": "What do two pay to Arvik?"},
    ]
    counts = Counts()
    for _ in range(STEPS):
        answer = say(client, messages, tools=TOOLS)
        counts.add(answer)
        [call] = answer.choices[0].message.tool_calls
        assert call.function.arguments == ARGUMENTS
        messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    counts.add(say(client, messages, tools=TOOLS, tool_choice="none"))
    assert counts.cached >= 0.99 * counts.ideal > 0
    assert not counts.losses


def test_a_list_that_changes_within_a_loop_is_told_behind_the_result(
    client: openai.OpenAI, model: str
) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Use the tools, which change."},
        {"role": "user", "content": "What do two pay to Arvik?"},
    ]
    counts, told = Counts(), []
    for tools in (TOOLS, [*TOOLS, *MORE], [*MORE, *TOOLS], TOOLS, TOOLS):
        answer = say(client, messages, tools=tools)
        counts.add(answer)
        told.append((answer.foreword.get("tools") or {}).get("done"))
        [call] = answer.choices[0].message.tool_calls
        messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    assert counts.cached >= 0.99 * counts.ideal > 0
    done = "unseen" if model == SHOWS_NO_TOOLS else "appended"
    assert told == [None, done, None, done, None]
