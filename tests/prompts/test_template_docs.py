"""What the guides say is so."""

import re
from pathlib import Path

import pytest

from prompts import canonical_json, parse_json, parse_template
from prompts.environment import METHODS, template_environment
from prompts.errors import TemplateSyntaxError
from prompts.formats import DateFormat
from prompts.invisible import InvisibleKind
from prompts.template import VariableType

DOCS = Path(__file__).parents[2] / "docs"
FORMAT = (DOCS / "templates.md").read_text("utf-8")
BYTES = (DOCS / "canonical-bytes.md").read_text("utf-8")
EXAMPLE = FORMAT.split("```yaml\n")[1].split("```")[0]


def first_column(text: str, heading: str) -> list[str]:
    """The words in the first column of the table below a heading row."""
    rows = text.split(f"| {heading} |")[1].split("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` \|", rows, re.MULTILINE)


def test_the_example_is_a_template() -> None:
    template = parse_template(Path("support.yaml"), EXAMPLE.encode())
    assert template.reference == "support@3"
    assert template.tools == "tools"


def test_the_example_of_a_complaint_is_what_is_said() -> None:
    wrong = EXAMPLE.replace("below.", "below. {{ now() }}")
    with pytest.raises(TemplateSyntaxError) as caught:
        parse_template(Path("support.yaml"), wrong.encode())
    assert str(caught.value) in FORMAT.splitlines()


def test_types_formats_and_kinds_are_all_listed() -> None:
    assert first_column(FORMAT, "type") == [str(kind) for kind in VariableType]
    assert all(f"`{form}`" in FORMAT for form in DateFormat)
    assert first_column(BYTES, "`allow`") == [str(kind) for kind in InvisibleKind]


def test_filters_and_methods_are_all_listed() -> None:
    filters = FORMAT.split("Filters: `")[1].split("`")[0].split()
    assert filters == sorted(template_environment().filters)
    functions = FORMAT.split("Functions: ")[1].split("## ")[0]
    methods = {word for words in re.findall(r"`([a-z\s]+)`", functions) for word in words.split()}
    assert methods | {"cycle", "changed"} == METHODS


def test_numbers_are_spelled_as_the_table_says() -> None:
    table = BYTES.split("| given | spelled |\n|---|---|\n")[1].split("| integers")[0]
    for row in table.strip().splitlines():
        *given, spelled = re.findall("`([^`]+)`", row)
        assert {canonical_json(parse_json(number)) for number in given} == {spelled}
