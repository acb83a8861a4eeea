"""The simulated engine's view of text: streams that hold back, templates that see tools."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engine_sim.bodies import TokenizeBody
from bench.engine_sim.limits import RequestRefusedError
from bench.engine_sim.prompting import prompt_ids
from bench.engine_sim.tokens import ModelText, TextStream
from tests.tokenizer_folders import write_tokenizer

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("find", "open")]
WITH_TOOLS = (
    "{% if tools %}{% for tool in tools %}[{{ tool.function.name }}]{% endfor %}{% endif %}"
    "{% for message in messages %}{{ message.content }}{% endfor %}{{ mood }}"
)


@pytest.fixture(scope="module")
def model(model_path: Path) -> ModelText:
    return ModelText(model_path)


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_stream_says_what_the_whole_says_and_never_takes_back(
    model: ModelText, text: str
) -> None:
    ids = model.encode(text, add_special_tokens=False)
    stream = TextStream(model)
    said = ""
    for token in ids:
        stream.push(token)
        said += stream.text[len(said) : stream.sayable]
        assert stream.text.startswith(said)
    whole = model.decode(ids)
    assert said == whole or whole.startswith(said)
    assert "\ufffd" in whole or said == whole


def test_what_may_begin_a_stop_string_is_held_back(model: ModelText) -> None:
    stream = TextStream(model, ["now or", "x"])
    said = ""
    for token in model.encode("open now and then now or never", add_special_tokens=False):
        stream.push(token)
        said += stream.text[len(said) : stream.sayable]
        assert "now or" not in said
        if stream.matched:
            break
    assert stream.matched == "now or"
    assert said == stream.text == "open now and then "


def test_the_end_of_an_answer_says_what_was_held_back(model: ModelText) -> None:
    stream = TextStream(model, ["zzz"])
    for token in model.encode("az", add_special_tokens=False):
        stream.push(token)
    assert stream.text[: stream.sayable] == "a"
    stream.end()
    assert stream.text[: stream.sayable] == "az"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tools": TOOLS}, "[find][open]x"),
        ({"tools": TOOLS, "tool_choice": "none"}, "x"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "open"}}}, "[open]x"),
        ({"chat_template_kwargs": {"mood": "!"}}, "x!"),
    ],
    ids=["all", "none", "named", "kwargs"],
)
def test_a_template_sees_tools_and_variables(
    tmp_path: Path, fields: dict[str, object], text: str
) -> None:
    model = ModelText(write_tokenizer(tmp_path, chat_template=WITH_TOOLS))
    messages = [{"role": "user", "content": "x"}]
    body = TokenizeBody.model_validate({"messages": messages, **fields})
    assert model.decode(prompt_ids(model, body)) == text


def test_a_template_that_refuses_is_the_client_s_error(tmp_path: Path) -> None:
    refusing = "{{ raise_exception('no roles here') }}"
    model = ModelText(write_tokenizer(tmp_path, chat_template=refusing))
    body = TokenizeBody.model_validate({"messages": [{"role": "user", "content": "x"}]})
    with pytest.raises(RequestRefusedError, match="no roles here"):
        prompt_ids(model, body)


def test_a_template_may_stand_in_the_tokenizer_s_configuration(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    (folder / "chat_template.jinja").unlink()
    config = {"chat_template": "{{ bos_token }}hi", "bos_token": {"content": "<|endoftext|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert ModelText(folder).render([]) == "<|endoftext|>hi"


def test_words_are_plain_text_in_any_order(model: ModelText) -> None:
    words = model.words()
    assert len(words) > 100
    assert model.decode(words).isascii()
