"""Values of every type: taken, brought to one form, or refused with the variable's name."""

import datetime
import decimal
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import Message, PromptDocument, Template, ToolCall, parse_template, render
from prompts.errors import UnstableValueError
from prompts.values import Value

SEARCH = {"type": "function", "function": {"name": "search"}}


def template(declaration: str, text: str = "{{ x }}") -> Template:
    source = (
        f"name: t\nversion: 1\nvariables: {{x: {{volatility: turn, {declaration}}}}}\n"
        f"segments:\n  - {{id: s, role: user, volatility: turn, text: '{text}'}}\n"
    )
    return parse_template(Path("t.yaml"), source.encode())


def rendered(declaration: str, value: Value, text: str = "{{ x }}") -> str:
    prompt = render(template(declaration, text), {"x": value})
    return "".join(segment.text for segment in prompt.segments)


@pytest.mark.parametrize(
    ("declaration", "value", "text"),
    [
        ("type: text", "a\r\nb\ufeff", "a\nb\ufeff"),
        ("type: text", "Cafe\u0301\u200b", "Caf\u00e9\u200b"),
        ("type: text, normalize: false", "\ufeffa\r\nCafe\u0301", "\ufeffa\r\nCafe\u0301"),
        ("type: integer", 10**40, "1" + "0" * 40),
        ("type: integer", -7, "-7"),
        ("type: number, format: .2f", 2.675, "2.68"),
        ("type: number, format: .2f", 2.665, "2.66"),
        ("type: number, format: .2f", Decimal("1e-30"), "0.00"),
        ("type: number, format: .2f", -0.001, "0.00"),
        ("type: number, format: .0f", 2.5, "2"),
        ("type: number, format: .2f", 12345678901234567890, "12345678901234567890.00"),
        ('type: number, format: ",.1f"', -1234567.25, "-1,234,567.2"),
        ("type: number, format: .1%", 0.1234, "12.3%"),
        ("type: date", datetime.date(2026, 11, 3), "2026-11-03"),
        ("type: date", "2026-11-03", "2026-11-03"),
        ("type: date", datetime.date(33, 4, 3), "0033-04-03"),
        ("type: date, format: YYYY-MM", "2026-11-03", "2026-11"),
        ("type: date, format: DD.MM.YYYY", "2026-11-03", "03.11.2026"),
        ("type: date, format: D Month YYYY", "2026-11-03", "3 November 2026"),
        ('type: date, format: "Weekday, Month D, YYYY"', "2026-12-25", "Friday, December 25, 2026"),
    ],
)
def test_a_value_has_one_spelling(declaration: str, value: Value, text: str) -> None:
    assert rendered(declaration, value) == text


@pytest.mark.parametrize(
    ("declaration", "value", "words"),
    [
        ("type: text", 3, "must be text, not int"),
        ("type: text", None, "must be text, not NoneType"),
        ("type: text, normalize: false", "\ud800", "lone surrogate"),
        ("type: integer", True, "must be integer, not bool"),
        ("type: integer", 3.0, "must be integer, not float"),
        ("type: number, format: .2f", "3", "must be number, not str"),
        ("type: number, format: .2f", float("nan"), "no digits"),
        ("type: number, format: .2f", Decimal("sNaN"), "no digits"),
        ("type: number, format: .2f", Decimal("1e1000000"), "too large"),
        ("type: date", datetime.datetime(2026, 1, 1, 12), "a day, not a moment"),
        ("type: date", "3 May", "must be a date like 2026-11-30"),
        ("type: date", 20261130, "must be date, not int"),
        ("type: json", {"a": {1, 2}}, "holds a set"),
        ("type: documents", "text", "must be documents, not str"),
        ("type: documents", ["text"], "must hold documents only"),
        ("type: documents", [PromptDocument(name="a", text=None)], "text only"),  # type: ignore[arg-type]
        ("type: messages", [PromptDocument(name="a", text="b")], "must hold messages only"),
        ("type: tools", [SEARCH, SEARCH], "two tools called 'search'"),
        ("type: tools", SEARCH, "must be tools, not dict"),
    ],
)
def test_a_value_without_a_canonical_form_names_its_variable(
    declaration: str, value: Value, words: str
) -> None:
    with pytest.raises(UnstableValueError, match=words) as caught:
        render(template(declaration, "{{ x is defined }}"), {"x": value})
    assert caught.value.variable == "x"


@pytest.mark.parametrize(
    "declaration",
    ["type: text", "type: integer", "type: number, format: .2f", "type: date", "type: json",
     "type: documents", "type: messages", "type: tools"],
)  # fmt: skip
def test_an_optional_value_is_empty_when_it_is_not_given(declaration: str) -> None:
    made = template(f"{declaration}, optional: true", "[{% if x %}{{ x }}{% endif %}]")
    assert render(made, {}).segments[0].text == "[]"


def test_json_is_gone_through_in_the_order_of_its_keys() -> None:
    value = {"b": [1.0, Decimal("2.50")], "a": {"z": None, "y": "Cafe\u0301"}}
    assert rendered("type: json", value, "{{ x|json }}") == (
        '{"a":{"y":"Caf\u00e9","z":null},"b":[1,2.5]}'
    )
    loop = "{% for k in x %}{{ k }}{% endfor %}{% for k, v in x.items() %}{{ k }}{% endfor %}"
    assert rendered("type: json", value, loop) == "abab"
    assert rendered("type: json", value, "{{ x.a.y }} {{ x.b[1] }}") == "Caf\u00e9 2.5"


def test_a_key_of_json_wins_over_a_method_of_that_name() -> None:
    assert rendered("type: json", {"items": "mine"}, "{{ x.items }}") == "mine"


def test_tools_are_told_apart_from_text() -> None:
    source = (
        b"name: t\nversion: 1\ntools: x\nvariables: {x: {type: tools, volatility: tenant}}\n"
        b"segments:\n  - {id: s, role: system, volatility: static, text: 'Use tools.'}\n"
    )
    prompt = render(parse_template(Path("t.yaml"), source), {"x": [SEARCH]})
    assert [tool.name for tool in prompt.tools] == ["search"]
    assert prompt.tools_volatility.label == "tenant"


UNSPELLABLE = ToolCall(id="1", name="f", arguments="\ud800")
CALL = ToolCall(id="1", name="f", arguments='{"b": 1,\r\n "a": 1.00, "a": "e\u0301"}')


def test_what_the_model_and_its_tools_said_is_kept_byte_for_byte() -> None:
    said = "\ufeffCafe\u0301\r\n"
    messages = (
        Message(role="user", content="x"),
        Message(role="assistant", content=said, tool_calls=(CALL,), reasoning=said),
        Message(role="tool", content=said, tool_call_id="1", name="f"),
    )
    source = (
        b"name: t\nversion: 1\nvariables: {x: {type: messages, volatility: turn}}\n"
        b"segments:\n  - {id: s, volatility: turn, messages: x}\n"
    )
    made = parse_template(Path("t.yaml"), source)
    assert render(made, {"x": messages}).messages == messages
    user = Message(role="user", content=said)
    assert render(made, {"x": [user]}).messages[0].content == "Caf\u00e9\n"


@pytest.mark.parametrize(
    "message",
    [
        Message(role="assistant", content="", tool_calls=(UNSPELLABLE,)),
        Message(role="assistant", content="", reasoning="\ud800"),
        Message(role="assistant", content="\ud800"),
    ],
)
def test_no_part_of_a_message_may_be_without_utf_8(message: Message) -> None:
    with pytest.raises(UnstableValueError, match="lone surrogate"):
        render(template("type: messages", "{{ x is defined }}"), {"x": [message]})


@given(st.floats(-1e15, 1e15), st.integers(0, 6))
def test_a_number_is_rounded_once_from_its_decimal_spelling(number: float, digits: int) -> None:
    shown = rendered(f"type: number, format: .{digits}f", number)
    exact = Decimal(repr(number))
    assert abs(Decimal(shown) - exact) * 2 <= Decimal(1).scaleb(-digits)
    assert len(shown.partition(".")[2]) == digits


def test_a_threads_decimal_context_does_not_show() -> None:
    with decimal.localcontext(prec=2, rounding=decimal.ROUND_UP):
        assert rendered("type: number, format: .2f", 1234.5611) == "1234.56"
