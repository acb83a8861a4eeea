"""What an engine would die of is refused by name; what OpenAI and SGLang document is not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from app.errors import InvalidRequestError
from app.sampling_limits import check_sampling
from prompts import PromptTokenizer, load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> PromptTokenizer:
    return load_tokenizer(tokenizer_folder)


@pytest.mark.parametrize(
    "extras",
    [
        {"n": 2, "top_logprobs": 5, "top_k": -1, "min_tokens": 0, "seed": -1, "temperature": 0},
        {"stop": "a"}, {"stop": ["a", "b"]}, {"stop_token_ids": [1, 2]}, {"regex": "a+"},
        {"logit_bias": {"1": -100, "2": 5.5}}, {"response_format": {"type": "json_object"}},
        {"n": None, "stop": None, "logit_bias": None}, {"another": 2**99},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
        {"response_format": {"type": "json_schema", "schema": {}}}, {"top_p": 1, "top_k": 1},
        {"frequency_penalty": -2, "presence_penalty": 0.5, "repetition_penalty": 2, "min_p": 0},
    ],
)  # fmt: skip
def test_what_is_documented_goes_on(
    tokenizer: PromptTokenizer, extras: Mapping[str, object]
) -> None:
    check_sampling(extras, tokenizer)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 0), ("n", True), ("n", 2.0), ("n", 129), ("top_logprobs", 21), ("top_k", 2**31),
        ("min_tokens", -1), ("seed", 2**63), ("temperature", -1), ("temperature", "1"),
        ("temperature", float("inf")), ("stop", ["a"] * 33), ("stop", [1]), ("stop", "a" * 1025),
        ("stop_token_ids", [-1]), ("stop_token_ids", [10**9]), ("stop_token_ids", [2**70]),
        ("stop_token_ids", [True]), ("stop_token_ids", "1"), ("logit_bias", {"1": 101}),
        ("logit_bias", {"x": 1}), ("logit_bias", {"9" * 5000: 1}), ("logit_bias", {"1": True}),
        ("logit_bias", {"1": float("nan")}), ("logit_bias", []), ("regex", "a" * 4097),
        ("ebnf", 1), ("response_format", {"a": "b" * 70_000}), ("response_format", {"type": "xml"}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x"}}),
        ("top_k", 0), ("top_p", 0), ("top_p", "1"), ("top_p", float("nan")), ("min_p", 1.1),
        ("frequency_penalty", 3), ("presence_penalty", "1"), ("repetition_penalty", 0),
        ("logprobs", 1), ("parallel_tool_calls", "yes"), ("ignore_eos", 0), ("store", "no"),
        ("user", 5), ("metadata", {"a": 1}), ("service_tier", []),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_named(
    tokenizer: PromptTokenizer, field: str, value: object
) -> None:
    with pytest.raises(InvalidRequestError, match=f"{field}: must be ") as raised:
        check_sampling({"seed": 1, field: value}, tokenizer)
    assert raised.value.param == field


def test_ids_that_cannot_be_checked_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="can't be checked"):
        check_sampling({"stop_token_ids": [1]}, None)
    check_sampling({"temperature": 1}, None)
