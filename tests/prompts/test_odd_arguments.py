"""Calls whose arguments are no JSON object: models make them, and the conversation goes on."""

import json
from dataclasses import replace

import pytest

from prompts import Message, ToolCall
from prompts.call_arguments import arguments_object, engine_arguments
from prompts.chat_template import ChatTemplate, text_of
from prompts.errors import ChatTemplateError
from tests.prompts.test_chat_template import (
    ASKED,
    CALL,
    CALLED,
    MARK,
    NAMES,
    RESULT,
    SYSTEM,
    TEMPLATES,
    TOOLS,
)
from tests.tokenizer_packages import RealTokenizers

ODD = ("{", f'{{"q": "{MARK}te', "[1]", "null", "1", '"x"', f"not {MARK} JSON", '{"n": NaN}')
DEEP = '{"a":' + "[" * 600 + "]" * 600 + "}"


def agent(arguments: str) -> list[Message]:
    called = replace(CALLED, tool_calls=(replace(CALL, arguments=arguments),))
    return [SYSTEM, ASKED, called, RESULT]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_that_writes_calls_writes_these(
    name: str, real_tokenizers: RealTokenizers
) -> None:
    source = (real_tokenizers.templates() / f"{name}.jinja").read_text("utf-8")
    template = ChatTemplate(source, NAMES)
    try:
        usual = template.render(agent(CALL.arguments), TOOLS)
    except ChatTemplateError:
        pytest.skip("it takes no such conversation")
    shows = f"x{MARK}" in usual
    for arguments in (*ODD, DEEP, "", "  "):
        pieces = template.pieces(agent(arguments), TOOLS)
        own = "".join(piece.text for piece in pieces if piece.origin is None)
        assert MARK not in own
        # The same again, from the shape that was kept.
        assert template.pieces(agent(arguments), TOOLS) == pieces
        if shows and MARK in arguments:
            assert f"{MARK}te" in text_of(pieces) or f"not {MARK} JSON" in text_of(pieces)


def test_they_stay_the_text_that_the_model_wrote_where_a_template_can_print_it() -> None:
    call = ToolCall(id="1", name="f", arguments='{"te')
    message = Message(role="assistant", content="", tool_calls=(call,))
    begin = "{% set a = messages[0].tool_calls[0].function.arguments %}"
    asked = Message(role="user", content="?")
    for body, shown in (
        ("{{ a if a is string else a | tojson }}", '{"te'),
        ("{{ a | tojson }}", r'"{\"te"'),
        # It takes arguments apart: they are the only one of their call.
        (
            "{% for name, value in a | items %}{{ name }}={{ value }};{% endfor %}",
            'arguments={"te;',
        ),
    ):
        assert ChatTemplate(begin + body, {}).render([message, asked]) == shown


@pytest.mark.parametrize(
    ("written", "read", "sent"),
    [
        ('{"a": 1.50}', {"a": 1.5}, '{"a": 1.50}'),
        ("", {}, "{}"),
        (" ", {}, "{}"),
        ('{"te', None, r'{"arguments":"{\"te"}'),
        ("[]", None, '{"arguments":"[]"}'),
        ("null", None, '{"arguments":"null"}'),
        (DEEP, None, json.dumps({"arguments": DEEP}, separators=(",", ":"))),
    ],
)
def test_an_engine_that_renders_them_itself_gets_an_object(
    written: str, read: object, sent: str
) -> None:
    assert arguments_object(written) == read
    assert engine_arguments(written) == sent
