"""On the real engine: a list of tools that changes costs what is new, and calls of tools that are
gone can't come."""

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from app.schemas import ChatCompletionRequest
from app.tool_masks import tool_fields
from prompts import PromptTokenizer, canonical_tools, load_tokenizer
from prompts.tool_changes import ToolHistory
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_packages import RealTokenizers

pytestmark = pytest.mark.engine

PAGE_TOKENS = 16
WHO = {
    "type": "object",
    "properties": {"who": {"type": "string", "enum": ["child", "adult"]}},
    "required": ["who"],
    "additionalProperties": False,
}


def tools(*names: str) -> list[Any]:
    return [{"type": "function", "function": {"name": n, "parameters": WHO}} for n in names]


@pytest.fixture(scope="module")
def client(engine: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, engine.url, tokenizer=engine.model_path)) as url:
        wait_until_ready(url)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as made:
            yield made


def test_a_changed_list_costs_what_is_new_and_only_its_tools_are_called(
    client: openai.OpenAI, engine: RealEngine
) -> None:
    """The bias keeps random weights from filling arguments with blanks."""
    tokenizer = load_tokenizer(engine.model_path)
    blanks = [n for n in range(tokenizer.encoder.get_vocab_size()) if _is_blank(tokenizer, n)]
    bias = {str(number): -100 for number in blanks}
    messages: list[Any] = []
    held, told = 0, []
    for number, names in enumerate((["price"], ["price", "age"], ["age"], ["age"])):
        messages.append({"role": "user", "content": f"Question {number}: what do I pay?"})
        answer: Any = client.chat.completions.create(
            model="default", messages=messages, tools=tools(*names), tool_choice="required",
            parallel_tool_calls=False, logit_bias=bias, max_tokens=60, temperature=0,
        )  # fmt: skip
        [call] = answer.choices[0].message.tool_calls
        assert call.function.name in names
        messages.append(answer.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "Five crowns."})
        told.append((answer.foreword.get("tools") or {}).get("done"))
        # The answer's last token was never computed; then whole pages.
        assert answer.foreword["cached_tokens"] >= held - 1 - PAGE_TOKENS
        held = answer.usage.total_tokens
    assert told == [None, "appended", "appended", None]


def test_the_engine_takes_both_masks(engine: RealEngine, real_tokenizers: RealTokenizers) -> None:
    """A grammar of how calls are written, and a token that can't come."""
    qwen3 = real_tokenizers.load("qwen3")
    history = ToolHistory.begin(canonical_tools(tools("price", "age")))
    body: dict[str, Any] = {
        "model": "default",
        "messages": [{"role": "user", "content": "What do I pay?"}],
        "max_tokens": 24,
        "temperature": 0,
    }
    request = ChatCompletionRequest.model_validate(body)
    masked, is_masked = tool_fields(request, history.changed(canonical_tools(tools("age"))), qwen3)
    assert is_masked
    # So that the model, which says anything, begins a call at once.
    form: Any = masked["response_format"]
    form["at_least_one"] = True
    said = asked(engine, body | masked)
    assert said.startswith(form["structures"][0]["begin"])
    assert '"age"' in said

    plain = asked(engine, body)
    ids = httpx.post(
        f"{engine.url}/v1/tokenize", json={"prompt": plain, "add_special_tokens": False},
        trust_env=False, timeout=60,
    ).json()["tokens"]  # fmt: skip
    assert asked(engine, body | {"logit_bias": {str(ids[0]): -100}}) != plain


def _is_blank(tokenizer: PromptTokenizer, token_id: int) -> bool:
    return token_id not in tokenizer.control and not tokenizer.decode([token_id]).strip()


def asked(engine: RealEngine, body: dict[str, Any]) -> str:
    url = f"{engine.url}/v1/chat/completions"
    answer = httpx.post(url, json=body, trust_env=False, timeout=120).raise_for_status().json()
    message = answer["choices"][0]["message"]
    assert not message.get("tool_calls")
    return str(message["content"])
