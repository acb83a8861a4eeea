"""What only a real model can show, through the unmodified OpenAI SDK: log probabilities, structured
output, tools, seeds, and completions whose ids stay."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.app.openai_objects import exact
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

QUESTION: list[Any] = [{"role": "user", "content": "When does the ferry leave?"}]
SCHEMA = {
    "type": "object",
    "properties": {"pier": {"type": "integer"}, "open": {"type": "boolean"}},
    "required": ["pier", "open"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def gateway(engine: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, engine.url, tokenizer=engine.model_path)) as url:
        wait_until_ready(url)
        yield url


@pytest.fixture(scope="module")
def client(gateway: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as made:
        yield made


def chat(client: openai.OpenAI, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": "default", "messages": QUESTION, "max_tokens": 8}
    return exact(client.chat.completions.create(**(given | fields)))


def test_log_probabilities_of_a_chat(client: openai.OpenAI) -> None:
    answer = chat(client, logprobs=True, top_logprobs=3, temperature=0, n=2)
    for choice in answer.choices:
        for token in choice.logprobs.content:
            assert len(token.top_logprobs) == 3
            assert token.logprob == pytest.approx(token.top_logprobs[0].logprob)


@pytest.mark.parametrize("completes", [False, True], ids=["chat", "completion"])
def test_a_seed_repeats_no_answer_of_an_engine_that_samples_freely(
    client: openai.OpenAI, completes: bool
) -> None:
    """As docs/http.md says; without sampling answers repeat anyway."""

    def answer(temperature: float) -> str:
        fields: dict[str, Any] = {"temperature": temperature, "seed": 7, "max_tokens": 24}
        if completes:
            made = client.completions.create(model="default", prompt="The ferry", **fields)
            return made.choices[0].text
        return str(chat(client, **fields).choices[0].message.content)

    assert len({answer(0) for _ in range(3)}) == 1
    assert len({answer(1) for _ in range(3)}) == 3


def test_structured_output_keeps_to_its_schema(client: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "pier", "schema": SCHEMA}}
    answer = chat(client, response_format=form, max_tokens=200, temperature=0)
    if answer.choices[0].finish_reason == "stop":  # random weights may fill any window with digits
        found = json.loads(answer.choices[0].message.content)
        assert found.keys() == {"pier", "open"}
    assert answer.choices[0].message.content.lstrip().startswith("{")


def test_tools_are_shown_to_the_model_whatever_it_may_call(client: openai.OpenAI) -> None:
    tool = {"type": "function", "function": {"name": "pier", "parameters": SCHEMA}}
    shown = chat(client, tools=[tool]).usage.prompt_tokens
    assert chat(client, tools=[tool], tool_choice="none").usage.prompt_tokens == shown
    assert chat(client).usage.prompt_tokens < shown


def test_a_stop_ends_an_answer_and_is_not_in_it(client: openai.OpenAI) -> None:
    whole = chat(client, temperature=0, max_tokens=16).choices[0].message.content
    stop = whole[len(whole) // 2 :][:3]
    stopped = chat(client, temperature=0, max_tokens=16, stop=[stop]).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.message.content == whole[: whole.index(stop)]


def test_the_async_client_streams(gateway: str) -> None:
    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused") as client:
            stream = await client.chat.completions.create(
                model="default", messages=QUESTION, max_tokens=8, stream=True
            )
            return "".join([c.choices[0].delta.content or "" async for c in stream])

    assert asyncio.run(run())


def complete(client: openai.OpenAI, prompt: Any, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": "default", "max_tokens": 8, "temperature": 0}
    return exact(client.completions.create(prompt=prompt, **(given | fields)))


def test_a_completion_and_its_answer_are_re_used(client: openai.OpenAI) -> None:
    prompt = "The ferry leaves at noon, the next one at two. " * 8
    first = complete(client, prompt, logprobs=2, max_tokens=24)
    assert len(first.choices[0].logprobs.token_logprobs) == 24
    assert not {"token_ids", "prompt_token_ids"} & first.choices[0].model_extra.keys()
    again = complete(client, prompt)
    block = again.foreword
    assert block["verdict"] == "hit"
    assert block["cached_tokens"] == block["ideal_tokens"] > 0
    assert again.usage.prompt_tokens - block["cached_tokens"] <= 17


def test_completions_stream_several_prompts(client: openai.OpenAI) -> None:
    prompts = ["The ferry", "The pier is closed in winter, and"]
    whole = complete(client, prompts)
    stream = client.completions.create(
        model="default",
        prompt=prompts,
        max_tokens=8,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    for choice in whole.choices:
        parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
    assert chunks[-1].usage == whole.usage or chunks[-1].usage is not None


def test_an_id_outside_the_vocabulary_doesnt_kill_the_engine(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        complete(client, [1, 10_000_000])
    assert complete(client, [1, 2, 3]).usage.prompt_tokens == 3
