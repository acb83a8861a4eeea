"""What a request puts into a prompt, and what the gateway does where it can't render it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from app.errors import InvalidRequestError
from app.given_values import given_values
from app.messages import message_object
from app.schemas import ChatMessage
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from prompts import Message, PromptDocument, ToolCall, parse_template
from prompts.errors import UnknownVariableError
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML, write_tokenizer

NO_TOOLS = "{% if tools %}{{ raise_exception('no tools here') }}{% endif %}" + CHATML
TEMPLATE = b"""
name: mood
version: 1
variables:
  mood: {type: text, volatility: tenant}
  limit: {type: integer, volatility: tenant}
  facts: {type: documents, volatility: collection}
  conversation: {type: messages, volatility: turn}
segments:
  - {id: rules, role: system, volatility: tenant, text: "Be {{ mood }}, in {{ limit }} words."}
  - id: facts
    role: system
    volatility: collection
    text: "{% for fact in facts %}{{ fact.text }}{% endfor %}"
  - {id: conversation, volatility: turn, messages: conversation}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In front of an engine whose chat template refuses tools."""
    folder = write_tokenizer(tmp_path_factory.mktemp("models") / "tiny", chat_template=NO_TOOLS)
    config = SimulatorConfig(model_path=folder, clock=ClockConfig(speedup=20))
    home = tmp_path_factory.mktemp("home")
    with (
        SimulatorThread(config) as simulator,
        running_gateway(gateway_settings(home, simulator.url)) as url,
    ):
        wait_until_ready(url)
        yield url


def test_without_tool_parity_the_engine_renders_tools(gateway: str) -> None:
    ready = httpx.get(f"{gateway}/readyz", trust_env=False).json()
    assert ready["engine"]["token_parity"] is True
    assert ready["engine"]["tool_parity"] is False
    assert "no tools here" in str(ready)
    tools = [{"type": "function", "function": {"name": "now"}}]
    question = [{"role": "user", "content": "When?"}]
    body = {"model": "default", "messages": question, "max_tokens": 2}
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        assert client.chat.completions.create(**body).choices
        with pytest.raises(openai.BadRequestError, match="no tools here"):
            client.chat.completions.create(**body, tools=tools)


def test_variables_of_a_template_come_from_the_client() -> None:
    template = parse_template(Path("mood.yaml"), TEMPLATE)
    facts = [{"name": "a.md", "text": "Dogs travel free."}]
    given = given_values(template, {"mood": "kind", "limit": 9, "facts": facts}, taken={})
    assert given == {
        "mood": "kind",
        "limit": 9,
        "facts": [PromptDocument(name="a.md", text="Dogs travel free.")],
    }


def test_variables_that_cannot_be_filled_are_told() -> None:
    template = parse_template(Path("mood.yaml"), TEMPLATE)
    with pytest.raises(UnknownVariableError, match="colour"):
        given_values(template, {"colour": "red"}, taken={})
    for name in ("conversation", "mood"):
        with pytest.raises(InvalidRequestError, match="from the request itself"):
            given_values(template, {name: "x"}, taken={"mood": "y"})
    with pytest.raises(InvalidRequestError, match="facts") as caught:
        given_values(template, {"facts": "x"}, taken={})
    assert caught.value.param == "foreword.variables.facts"


def test_a_message_comes_out_as_it_went_in() -> None:
    call = ToolCall(id="call_1", name="now", arguments='{"zone":"UTC", "n":1.50}')
    messages = [
        Message(role="user", content="When?"),
        Message(role="assistant", content="", reasoning="Hm.", tool_calls=(call,)),
        Message(role="tool", content="nine", tool_call_id="call_1", name="now"),
    ]
    for message in messages:
        assert ChatMessage.model_validate(message_object(message)).message() == message


@pytest.mark.parametrize(
    ("extra", "known"),
    [
        ({}, True),
        ({"refusal": None, "annotations": [], "audio": None}, True),
        ({"name": "Ann"}, True),
        ({"function_call": {"name": "x"}}, False),
        ({"weight": 1}, False),
    ],
)
def test_what_a_message_may_hold_to_be_rendered_here(extra: dict[str, object], known: bool) -> None:
    message = ChatMessage.model_validate({"role": "assistant", "content": "x", **extra})
    assert message.known is known
