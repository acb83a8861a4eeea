"""Attributes and conditions as people write them."""

import json
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.commands.attribute_values import attributes_of, filter_of, value_of

_VALUES = st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(_KEYS, _VALUES)
def test_a_value_spelled_as_json_is_that_value(key: str, value: Any) -> None:
    assert attributes_of([f"{key}={json.dumps(value)}"]) == {key: value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024", 2024),
        ("1.5", 1.5),
        ("true", True),
        ("True", "True"),
        ("two words", "two words"),
        ('"7"', "7"),
        ("", ""),
        ("null", "null"),
        ("[1]", "[1]"),
        ("a=b", "a=b"),
    ],
)
def test_values_are_numbers_truths_or_texts(text: str, value: object) -> None:
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


@pytest.mark.parametrize("pairs", [["year"], ["=3"], ["a=1", "a=2"]])
def test_what_is_no_attribute_is_told(pairs: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        attributes_of(pairs)


def test_conditions_become_openais_filters() -> None:
    assert filter_of([]) is None
    assert filter_of(["year>=2020"]) == {"type": "gte", "key": "year", "value": 2020}
    given = '{"type": "in", "key": "kind", "value": ["a", "b"]}'
    assert filter_of(["lang=de", "draft!=true", "price<3", "size > 1", given]) == {
        "type": "and",
        "filters": [
            {"type": "eq", "key": "lang", "value": "de"},
            {"type": "ne", "key": "draft", "value": True},
            {"type": "lt", "key": "price", "value": 3},
            {"type": "gt", "key": "size", "value": 1},
            json.loads(given),
        ],
    }
    assert filter_of(["formula=a>=b"]) == {"type": "eq", "key": "formula", "value": "a>=b"}


@pytest.mark.parametrize("condition", ["year", "=3", "{", '{"a": '])
def test_what_is_no_condition_is_told(condition: str) -> None:
    with pytest.raises(click.BadParameter):
        filter_of([condition])
