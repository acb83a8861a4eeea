"""Template files: what is taken, and that each fault is told with its place."""

from pathlib import Path

import pytest

from prompts import Volatility, load_templates, parse_template, shipped_templates
from prompts.errors import (
    DuplicateTemplateError,
    TemplateNotFoundError,
    TemplateSyntaxError,
    TemplateVolatilityError,
)

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
        ("{{ who }}", "{{ whom }}", (7, 53), "'whom' is used but not declared"),
        ("{{ who }}", "{{ who", (7, 53), "Jinja"),
        ("{{ who }}", "{{ now() }}", (7, 53), "'now' is used but not declared"),
        ("segments:", "segmnets:", (5, 1), "unknown field 'segmnets'"),
        ("  who:", "  who: {type: text, volatility: turn}\n  who:", (5, 3), "declared twice"),
        ("name: greeting", "name: [greeting", (2, 8), "not valid YAML"),
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
    assert (caught.value.segment, caught.value.variable, caught.value.line) == ("rules", "who", 6)


def test_two_bodies_under_one_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("kind", "brief"))
    with pytest.raises(DuplicateTemplateError, match="greeting@2 is already defined by"):
        load_templates(tmp_path)


def test_a_bare_name_finds_the_newest_version(tmp_path: Path) -> None:
    for version in (9, 10, 2):
        text = GOOD.replace("version: 2", f"version: {version}")
        (tmp_path / f"{version}.yaml").write_text(text)
    library = load_templates(tmp_path)
    assert library.find("greeting").version == 10
    assert library.find("greeting@9").version == 9
    with pytest.raises(TemplateNotFoundError, match="greeting@10"):
        library.find("greeting@3")


def test_the_shipped_templates_put_their_scaffold_first() -> None:
    for template in load_templates(shipped_templates()):
        volatilities = [segment.volatility for segment in template.segments]
        assert volatilities == sorted(volatilities)
        assert volatilities[0] is Volatility.STATIC
