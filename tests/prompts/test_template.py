"""Template files: what is taken, and that each fault is told with its place."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import Volatility, load_templates, parse_template, shipped_templates
from prompts.errors import TemplateError, TemplateSyntaxError, TemplateVolatilityError

PATH = Path("greeting.yaml")

GOOD = """\
name: greeting
version: 2
variables:
  who: {type: text, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Be kind."}
  - {id: hello, role: user, volatility: turn, text: "Hello {{ who }}"}
"""


def test_a_template_has_its_segments_in_order_with_their_lines() -> None:
    template = parse_template(PATH, GOOD.encode())
    assert template.reference == "greeting@2"
    assert [(s.id, s.volatility, s.line) for s in template.segments] == [
        ("rules", Volatility.STATIC, 6),
        ("hello", Volatility.TURN, 7),
    ]


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("version: 2", "version: two", (2, 10), "whole number"),
        ("version: 2", "version: 0", (2, 10), "whole number"),
        ("version: 2\n", "", (1, 1), "'version' is missing"),
        ("name: greeting", "name: Greeting", (1, 7), "lower-case"),
        ("name: greeting", "name: 7", (1, 7), "expected text"),
        ("type: text", "type: words", (4, 15), "not one of"),
        ("volatility: static", "volatility: always", (6, 43), "static, tenant"),
        ("role: user", "role: human", (7, 23), "not one of: system, user, assistant"),
        ("id: hello", "id: rules", (7, 5), "two segments"),
        ("{{ who }}", "{{ whom }}", (7, 63), "'whom' is used but not declared"),
        ("{{ who }}", "{{ who", (7, 60), "Jinja"),
        ("{{ who }}", "{{ now() }}", (7, 63), "`now()` can't be called here; it reads the clock"),
        ("segments:", "segmnets:", (5, 1), "unknown field 'segmnets'"),
        ("  who:", "  who: {type: text, volatility: turn}\n  who:", (5, 3), "declared twice"),
        ("name: greeting", "name: [greeting", (2, 8), "close the bracket"),
        ('"Hello {{ who }}"', "{{ who }}", (7, 53), "put quotes around text that opens with {"),
        ('"Hello {{ who }}"', '"a\\u200bb {{ who }}"', (7, 55), "invisible character, U+200B"),
        ("version: 2", "version: 010", (2, 10), "whole number"),
        ("version: 2", 'version: "2"', (2, 10), "whole number"),
        ("  who:", "  range:", (4, 3), "means something else in Jinja"),
        ("  who:", "  Who:", (4, 3), "lower-case"),
        ("type: text", "type: number", (4, 8), 'a number needs a format, for example ".2f"'),
        ("type: text", "type: number, format: 2f", (4, 31), 'format is ".2f"'),
        ("type: text", "type: date, format: iso", (4, 29), "not one of: YYYY-MM-DD"),
        ("type: text", "type: text, format: .2f", (4, 29), "only numbers and dates"),
        ("type: text", "type: json, normalize: no", (4, 32), "normalize is for these types"),
        ("segments:", "tools: who\nsegments:", (5, 8), "not declared as a tools variable"),
        ("role: user,", "messages: who,", (7, 5), "either messages, or role and text"),
        ("role: user, ", "", (7, 5), "a segment needs role and text, or messages"),
        ("id: hello", "id: Hello", (7, 10), "lower-case"),
        ("segments:", "segments: []\nother:", (6, 1), "unknown field 'other'"),
        ("\n  - {id: rules", " {id: rules", (6, 3), "not valid YAML"),
        ("{type: text, volatility: turn}", "text", (4, 8), "expected a mapping"),
        ("volatility: turn}", "volatility: turn, type: text}", (4, 39), "given twice"),
        ("volatility: turn}", "volatility: turn, optional: 1}", (4, 49), "true or false"),
    ],
)
def test_a_fault_is_told_with_its_place(
    old: str, new: str, place: tuple[int, int], words: str
) -> None:
    assert old in GOOD
    with pytest.raises(TemplateSyntaxError) as caught:
        parse_template(PATH, GOOD.replace(old, new, 1).encode())
    assert words in str(caught.value)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"- a\n- b\n", b"&a [*a]"])
def test_a_file_that_is_no_template_is_refused(data: bytes) -> None:
    with pytest.raises(TemplateSyntaxError):
        parse_template(PATH, data)


def test_a_segment_may_not_use_a_variable_that_changes_more_often_than_it_says() -> None:
    source = GOOD.replace("Be kind.", "Be kind to {{ who }}.")
    with pytest.raises(TemplateVolatilityError) as caught:
        parse_template(PATH, source.encode())
    error = caught.value
    assert (error.segment, error.variable, error.line, error.column) == ("rules", "who", 6, 72)


def test_the_shipped_templates_put_their_scaffold_first() -> None:
    for template in load_templates(shipped_templates()):
        volatilities = [segment.volatility for segment in template.segments]
        assert volatilities == sorted(volatilities)
        assert volatilities[0] is Volatility.STATIC


BLOCKS = """\
name: blocks
version: 1
variables: {x: {type: text, volatility: turn}}
segments:
  - id: literal
    role: user
    volatility: turn
    text: |
      first line
        {{ y }}
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("|\n      first line\n        {{ y }}\n", (10, 12)),
        ("|-\n\n      {% if x %}{{ y }}{% endif %}", (10, 20)),
        ("'it''s {{ y }}'", (8, 21)),
        ('"\\u00e9\\n{{ y }}"', (8, 23)),
        ("plain {{ y }}", (8, 20)),
        ("y y {{ x }} y {{ y }}", (8, 28)),
    ],
)
def test_a_fault_inside_a_text_is_told_where_it_stands_in_the_file(
    text: str, place: tuple[int, int]
) -> None:
    source = BLOCKS[: BLOCKS.index("|\n")] + text + "\n"
    with pytest.raises(TemplateSyntaxError, match="'y' is used but not declared") as caught:
        parse_template(PATH, source.encode())
    assert (caught.value.line, caught.value.column) == place


def test_a_text_that_uses_no_variable_is_rendered_once_and_for_all() -> None:
    source = GOOD.replace("Be kind.", "{% for i in range(2) %}{{ i }}{% endfor %}!")
    rules, hello = parse_template(PATH, source.encode()).segments
    assert rules.constant == "01!"
    assert hello.constant is None
    assert hello.uses == ("who",)


def test_a_linter_gets_the_template_with_its_faults() -> None:
    source = GOOD.replace("Be kind.", "{{ who }} {{ now() }} \u200b{{ x|nope }}")
    template = parse_template(PATH, source.encode(), checked=False)
    assert template.segments[0].uses == ("now", "who", "x")
    assert template.segments[0].code is None
    with pytest.raises(TemplateSyntaxError):
        parse_template(PATH, source.replace("{{ who", "{{ who.").encode(), checked=False)


def test_invisible_characters_that_are_meant_are_taken() -> None:
    source = GOOD.replace("Be kind.", "10\u00a0km")
    with pytest.raises(TemplateSyntaxError, match=r"`allow: \[space\]`"):
        parse_template(PATH, source.encode())
    allowed = source.replace("volatility: static,", "volatility: static, allow: [space],")
    assert parse_template(PATH, allowed.encode()).segments[0].constant == "10\u00a0km"


def test_a_templates_text_is_brought_to_its_canonical_form() -> None:
    source = GOOD.replace("Be kind.", "Cafe\u0301\\r\\n")
    assert parse_template(PATH, source.encode()).segments[0].constant == "Caf\u00e9\n"


def test_a_conversation_may_not_change_more_often_than_its_segment_says() -> None:
    source = GOOD.replace("type: text", "type: messages").replace(
        'role: user, volatility: turn, text: "Hello {{ who }}"',
        "volatility: session, messages: who",
    )
    with pytest.raises(TemplateVolatilityError) as caught:
        parse_template(PATH, source.encode())
    error = caught.value
    assert (error.segment, error.variable, error.line, error.column) == ("hello", "who", 7, 48)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"\\ud800"', "lone surrogate|not valid YAML"),
        ("{% for i in [1] %}" * 30 + "{% endfor %}" * 30, "nested too deep"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "nested too deep"),
        ('"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"', "can't be rendered"),
        ('"{% block a %}{% endblock %}{% block a %}{% endblock %}"', "defined twice"),
    ],
)
def test_a_text_that_python_cannot_take_is_told(text: str, words: str) -> None:
    quoted = text if text.startswith('"') else f'"{text}"'
    source = GOOD.replace('"Be kind."', quoted)
    with pytest.raises(TemplateSyntaxError, match=words):
        parse_template(PATH, source.encode())


def test_how_the_file_itself_is_saved_does_not_matter() -> None:
    plain = BLOCKS.replace("{{ y }}", "caf\u00e9")
    saved = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    one, two = (parse_template(PATH, data) for data in (plain.encode(), saved))
    assert one == two


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_makes_the_parser_fall_over(data: bytes) -> None:
    with contextlib.suppress(TemplateError):
        parse_template(PATH, data)


@given(st.integers(0, len(GOOD)), st.text("{}%:#'\"|>- \n\t&*!@`\\[],x", max_size=3))
def test_no_slip_of_the_pen_makes_the_parser_fall_over(place: int, slip: str) -> None:
    with contextlib.suppress(TemplateError):
        parse_template(PATH, (GOOD[:place] + slip + GOOD[place:]).encode())
