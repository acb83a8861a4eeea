"""What an engine is told of the tools that an answer may call."""

from typing import Any

import pytest

from app.errors import InvalidRequestError
from app.schemas import ChatCompletionRequest
from app.tool_masks import tool_fields
from prompts import PromptTokenizer, canonical_tools
from prompts.tool_changes import Announcement, ToolHistory
from tests.tokenizer_packages import RealTokenizers

A_CALL = '<tool_call>\n{"name": "a", "arguments": '
ALLOWED_B = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "b"}}]},
}


def tools(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, **fields}} for name in names]


def history(shown: str, now: str, **fields: Any) -> ToolHistory:
    began = ToolHistory.begin(canonical_tools(tools(*shown)))
    return began.changed(canonical_tools(tools(*now, **fields)))


@pytest.fixture(scope="module")
def qwen3(real_tokenizers: RealTokenizers) -> PromptTokenizer:
    return real_tokenizers.load("qwen3")


def fields_of(
    known: ToolHistory, tokenizer: PromptTokenizer | None, **fields: Any
) -> tuple[dict[str, Any], bool]:
    request = ChatCompletionRequest.model_validate(
        {"model": "x", "messages": [{"role": "user", "content": "Hi"}], **fields}
    )
    made, masked = tool_fields(request, known, tokenizer)
    return dict(made), masked


def names(made: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in made.get("tools", ())]


def test_without_a_change_the_engine_gets_the_tools_alone(qwen3: PromptTokenizer) -> None:
    made, masked = fields_of(ToolHistory.begin(canonical_tools(tools("b", "a"))), qwen3)
    assert (names(made), masked, list(made)) == (["a", "b"], False, ["tools"])


def test_a_grammar_keeps_the_model_from_a_tool_that_is_gone(qwen3: PromptTokenizer) -> None:
    made, masked = fields_of(history("ab", "a"), qwen3)
    assert (names(made), masked) == (["a"], True)
    assert made["response_format"] == {
        "type": "structural_tag",
        "structures": [{"begin": A_CALL, "schema": {"type": "object"}, "end": "}\n</tool_call>"}],
        "triggers": ["<tool_call>"],
    }


def test_tools_that_were_added_may_be_called(qwen3: PromptTokenizer) -> None:
    added = ToolHistory.begin(canonical_tools(tools("a")))
    added = added.changed(canonical_tools(tools("a", "b")), Announcement(place=2, text="b"))
    made, masked = fields_of(added, qwen3)
    assert (names(made), masked) == (["a", "b"], False)


def test_no_call_can_begin_where_none_is_allowed(qwen3: PromptTokenizer) -> None:
    opening = str(qwen3.control.id_of("<tool_call>"))
    for known, asked in ((history("ab", ""), {}), (history("a", "a"), {"tool_choice": "none"})):
        made, masked = fields_of(known, qwen3, logit_bias={"7": 1.5}, **asked)
        assert masked
        assert made["logit_bias"] == {"7": 1.5, opening: -100}


@pytest.mark.parametrize(
    "asked",
    [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "a"}}},
        {"response_format": {"type": "json_object"}},
        {"regex": "[ab]+"},
    ],
)
def test_what_constrains_the_answer_already_is_left_alone(
    qwen3: PromptTokenizer, asked: dict[str, Any]
) -> None:
    """The engine takes one constraint, and holds a call that must come to the tools it is sent."""
    made, masked = fields_of(history("ab", "a"), qwen3, **asked)
    assert (names(made), masked, list(made)) == (["a"], False, ["tools"])


def test_an_engine_that_is_sent_a_strict_tool_makes_the_grammar_itself(
    qwen3: PromptTokenizer,
) -> None:
    made, masked = fields_of(history("ab", "a", strict=True), qwen3)
    assert (names(made), masked, list(made)) == (["a"], False, ["tools"])


def test_of_allowed_tools_the_engine_gets_no_others(qwen3: PromptTokenizer) -> None:
    known = ToolHistory.begin(canonical_tools(tools("a", "b")))
    made, masked = fields_of(known, qwen3, tool_choice=ALLOWED_B)
    assert (names(made), made["tool_choice"], masked) == (["b"], "auto", True)
    assert '"name": "b"' in made["response_format"]["structures"][0]["begin"]


def test_an_engine_that_renders_itself_is_sent_the_tools_as_they_are() -> None:
    made, masked = fields_of(history("ab", "a"), None, tool_choice="none")
    assert (names(made), masked, list(made)) == (["a"], False, ["tools"])


def test_a_tool_that_is_gone_cannot_be_chosen(qwen3: PromptTokenizer) -> None:
    with pytest.raises(InvalidRequestError, match="'b' is not among") as refused:
        fields_of(history("ab", "a"), qwen3, tool_choice=ALLOWED_B)
    assert refused.value.param == "tool_choice"
