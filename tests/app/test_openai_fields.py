"""Every field of OpenAI's that the installed SDK knows is decided, told in docs/http.md, and may be
null: a new version of the SDK can't bring one that nobody thought of."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from openai.types import completion_create_params as completion_params
from openai.types import embedding_create_params as embedding_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as response_params

from app.completions import CompletionRequest
from app.completions import body as completion
from app.openai_fields import ASKING_FOR_NOTHING, IGNORED_FIELDS, REFUSED_FIELDS
from app.responses.bodies import ResponsesRequest
from app.routes.embeddings import EmbeddingsRequest
from app.schemas import FORWARDED_FIELDS, ChatCompletionRequest

GUIDE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
SAID = [{"role": "user", "content": "When does the ferry leave?"}]
PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "responses": "/v1/responses",
}
BODIES: Mapping[str, dict[str, Any]] = {
    "chat": {"model": "default", "messages": SAID, "max_completion_tokens": 4},
    "completions": {"model": "default", "prompt": "The ferry", "max_tokens": 4},
    "embeddings": {"model": "default", "input": "The ferry"},
    "responses": {"model": "default", "input": "The ferry?", "max_output_tokens": 4},
}
# What the engine gets, and what is taken for nothing or refused.
ELSEWHERE = {
    "chat": FORWARDED_FIELDS | IGNORED_FIELDS | REFUSED_FIELDS.keys(),
    "completions": completion.FORWARDED_FIELDS | IGNORED_FIELDS,
    "embeddings": frozenset[str](),
    "responses": IGNORED_FIELDS | REFUSED_FIELDS.keys() | {"max_tool_calls"},
}
MODELS = {
    "chat": ChatCompletionRequest,
    "completions": CompletionRequest,
    "embeddings": EmbeddingsRequest,
    "responses": ResponsesRequest,
}
# What the gateway has no default for.
REQUIRED = {
    "chat": {"model", "messages"},
    "completions": {"model", "prompt"},
    "embeddings": {"model", "input"},
    "responses": {"model", "input"},
}


def of_the_sdk() -> Mapping[str, set[str]]:
    kinds = {
        "chat": (chat_params.CompletionCreateParamsStreaming,),
        "completions": (completion_params.CompletionCreateParamsStreaming,),
        "embeddings": (embedding_params.EmbeddingCreateParams,),
        "responses": (response_params.ResponseCreateParamsStreaming,),
    }
    return {api: set().union(*map(get_type_hints, each)) for api, each in kinds.items()}


FIELDS = of_the_sdk()


def told_in_the_guide() -> Iterator[tuple[str, str, str]]:
    """API, what becomes of it, field."""
    _, found, section = GUIDE.partition("## OpenAI's fields, one by one")
    assert found
    for row in re.findall(r"^\| (\w+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE):
        api, fate, fields = row
        if api in FIELDS:
            # What stands in brackets is a value.
            for field in re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", fields)):
                yield api, fate, field


@pytest.mark.parametrize("api", FIELDS)
def test_every_field_is_decided(api: str) -> None:
    decided = MODELS[api].model_fields.keys() | ELSEWHERE[api]
    assert FIELDS[api] <= decided


@pytest.mark.parametrize("api", FIELDS)
def test_every_field_is_in_the_guide_once(api: str) -> None:
    told = [field for where, _, field in told_in_the_guide() if where == api]
    assert sorted(told) == sorted(FIELDS[api])


@pytest.mark.parametrize(
    ("api", "field"),
    [(api, field) for api, fields in FIELDS.items() for field in sorted(fields - REQUIRED[api])],
)
def test_null_is_the_same_as_nothing(http: httpx.Client, api: str, field: str) -> None:
    answer = http.post(PATHS[api], json=BODIES[api] | {field: None})
    assert answer.status_code == 200, answer.text


def test_all_of_them_may_be_null_at_once_in_a_usual_request(http: httpx.Client) -> None:
    """Also where the lane takes it, which the second of two such requests goes by."""
    nothing = dict.fromkeys(FIELDS["chat"])
    for _ in range(2):
        answer = http.post(PATHS["chat"], json=nothing | BODIES["chat"])
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("api", "field"),
    [(api, field) for api, fate, field in told_in_the_guide() if fate == "refused"],
)
def test_what_is_refused_says_why(http: httpx.Client, api: str, field: str) -> None:
    answer = http.post(PATHS[api], json=BODIES[api] | {field: "low"})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, field, "unsupported_field")
    assert "not a field" not in error["message"]
    assert "steers" not in error["message"]


@pytest.mark.parametrize(
    ("api", "field"),
    [(api, field) for api, fate, field in told_in_the_guide() if fate == "only its default"],
)
def test_only_the_default_is_taken(http: httpx.Client, api: str, field: str) -> None:
    for nothing in ASKING_FOR_NOTHING.get(field, ({"effort": None},)):
        answer = http.post(PATHS[api], json=BODIES[api] | {field: nothing})
        assert answer.status_code == 200, answer.text
    answer = http.post(PATHS[api], json=BODIES[api] | {field: 7})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field)
    assert "not a field" not in error["message"]


@pytest.mark.parametrize(
    ("api", "field"),
    [(api, field) for api, fate, field in told_in_the_guide() if fate == "taken for nothing"],
)
def test_what_is_taken_for_nothing_has_its_type_all_the_same(
    http: httpx.Client, api: str, field: str
) -> None:
    answer = http.post(PATHS[api], json=BODIES[api] | {field: 7})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


@pytest.mark.parametrize(
    ("api", "field", "value", "words"),
    [
        ("chat", "stream", "yes", "true or false"),
        ("chat", "max_tokens", "5", "a whole number"),
        ("chat", "max_tokens", 5.0, "a whole number"),
        ("chat", "max_completion_tokens", True, "a whole number"),
        ("chat", "frequency_penalty", "1", "a number from -2 to 2"),
        ("chat", "presence_penalty", 2.5, "a number from -2 to 2"),
        ("chat", "top_p", "0.5", "a number above 0 up to 1"),
        ("chat", "top_p", 0, "a number above 0 up to 1"),
        ("chat", "logprobs", "true", "true or false"),
        ("chat", "logprobs", 1, "true or false"),
        ("chat", "parallel_tool_calls", "no", "true or false"),
        ("chat", "response_format", {"type": "xml"}, "json_schema"),
        ("chat", "response_format", {"type": "json_schema"}, "a name and a schema"),
        ("chat", "top_k", 0, "-1 or a whole number"),
        ("chat", "min_p", 2, "from 0 to 1"),
        ("chat", "repetition_penalty", 0, "above 0"),
        ("chat", "ignore_eos", "x", "true or false"),
        ("completions", "prompt", 1.5, "a text or a list"),
        ("completions", "temperature", "hot", "a number"),
        ("completions", "logprobs", "2", "a whole number"),
        ("completions", "echo", "yes", "true or false"),
        ("embeddings", "input", 1.5, "a text or a list"),
        ("embeddings", "dimensions", "8", "a whole number"),
        ("responses", "stream", "yes", "true or false"),
        ("responses", "store", "no", "true or false"),
        ("responses", "max_output_tokens", "5", "a whole number"),
        ("responses", "temperature", "1", "a number"),
        ("responses", "parallel_tool_calls", 1, "true or false"),
    ],
)
def test_types_are_those_of_json(
    http: httpx.Client, api: str, field: str, value: object, words: str
) -> None:
    answer = http.post(PATHS[api], json=BODIES[api] | {field: value})
    error = answer.json()["error"]
    assert answer.status_code == 400, answer.text
    assert error["param"] == field
    assert words in error["message"]


def test_what_stands_in_a_list_is_named_with_its_place(http: httpx.Client) -> None:
    answer = http.post(PATHS["completions"], json=BODIES["completions"] | {"prompt": [1.5]})
    assert answer.json()["error"]["message"] == "prompt.0: must be a text, a whole number or a list"


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_parts_that_are_no_text_are_refused_by_name(http: httpx.Client, kind: str) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {"url": "x"}}]
    said = {"messages": [{"role": "user", "content": parts}]}
    error = http.post(PATHS["chat"], json=BODIES["chat"] | said).json()["error"]
    assert error["param"] == "messages.0.content.1"
    assert f"a part of type '{kind}' can't be taken" in error["message"]


def test_an_image_is_told_the_same_everywhere(http: httpx.Client) -> None:
    chat = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}
    response = {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}
    for api, body in (("chat", chat), ("responses", response)):
        error = http.post(PATHS[api], json=BODIES[api] | body).json()["error"]
        assert error["message"].endswith("can't be taken; the gateway takes text only")


@pytest.fixture(scope="module")
def http(gateway: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway, trust_env=False, timeout=60) as client:
        yield client
