"""How real models' chat templates write a call."""

import json
from pathlib import Path

import pytest

from prompts import Message, PromptTokenizer, ToolCall, load_tokenizer
from prompts.tool_calls import call_shape, shows_tools, takes_message_after
from tests.tokenizer_folders import CHATML, CHATML_TOOLS, write_model_tokenizer, write_tokenizer
from tests.tokenizer_packages import RealTokenizers

SHAPES = {
    "Qwen-Qwen3-0.6B": (
        "<tool_call>", '<tool_call>\n{"name": "f", "arguments": ', "}\n</tool_call>",
    ),
    "Bielik-11B-v3.0-Instruct": (
        "<tool_call>", '<tool_call>\n{"name": "f", "arguments": ', "}\n</tool_call>",
    ),
    "meta-llama-Llama-3.1-8B-Instruct": ('{"name": "', '{"name": "f", "parameters": ', "}"),
    "moonshotai-Kimi-K2": (
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>",
        "<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "deepseek-ai-DeepSeek-V3.1": (
        "<\uff5ctool▁calls▁begin\uff5c>",
        "<\uff5ctool▁calls▁begin\uff5c><\uff5ctool▁call▁begin\uff5c>f<\uff5ctool▁sep\uff5c>",
        "<\uff5ctool▁call▁end\uff5c><\uff5ctool▁calls▁end\uff5c>",
    ),
}  # fmt: skip
# Arguments that aren't JSON, an id that is the call's own, or no calls at all.
SHAPELESS = ("GLM-4.6", "mistralai-Mistral-Nemo-Instruct-2407", "google-gemma-2-2b-it")


def made(name: str, real_tokenizers: RealTokenizers, folder: Path) -> PromptTokenizer:
    source = (real_tokenizers.templates() / f"{name}.jinja").read_text("utf-8")
    return load_tokenizer(write_model_tokenizer(folder / "model", source, stop="<|im_end|>"))


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_call_is_written_as_the_template_writes_it(
    name: str, real_tokenizers: RealTokenizers, tmp_path: Path
) -> None:
    tokenizer = made(name, real_tokenizers, tmp_path)
    shape = call_shape(tokenizer)
    assert shape is not None
    assert (shape.trigger, shape.begin("f"), shape.after) == SHAPES[name]
    assert (shape.token is None) is (shape.trigger[0] == "{")
    call = ToolCall(id="call12345", name="f", arguments='{"n": 1}')
    said = Message(role="assistant", content="", tool_calls=(call,))
    result = Message(role="tool", content="1", tool_call_id=call.id, name="f")
    text = tokenizer.chat.render([Message(role="user", content="Hi"), said, result])
    assert shape.begin("f") + json.dumps({"n": 1}) + shape.after in text


@pytest.mark.parametrize("name", SHAPELESS)
def test_what_is_no_name_and_json_has_no_shape(
    name: str, real_tokenizers: RealTokenizers, tmp_path: Path
) -> None:
    assert call_shape(made(name, real_tokenizers, tmp_path)) is None


@pytest.mark.parametrize(("source", "shown"), [(CHATML, False), (CHATML_TOOLS, True)])
def test_a_template_may_show_no_tools(source: str, shown: bool, tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "model", chat_template=source)
    assert shows_tools(load_tokenizer(folder).chat) is shown


@pytest.mark.parametrize(
    ("model", "taken"),
    [("qwen3", True), ("smollm2", True), ("gemma3", False), ("deepseek_v3", False)],
)
def test_some_templates_take_no_system_message_later(
    model: str, taken: bool, real_tokenizers: RealTokenizers
) -> None:
    """Gemma's refuses it, and DeepSeek's moves it to the front."""
    earlier = [Message(role="user", content="One"), Message(role="assistant", content="Two")]
    added = [Message(role="system", content="Three"), Message(role="user", content="Four")]
    chat = real_tokenizers.load(model).chat
    assert takes_message_after(chat, earlier, added, ()) is taken
