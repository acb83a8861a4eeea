"""Filters in OpenAI's shapes: what is refused, and that matching is what the shapes say."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import InvalidFilterError
from retrieval.filters import MAX_DEPTH, canonical, matches, may_see, parse_filter


def comparison(type: str, key: str, value: object) -> dict[str, object]:
    return {"type": type, "key": key, "value": value}


@pytest.mark.parametrize(
    ("type", "held", "value", "expected"),
    [
        ("eq", "de", "de", True),
        ("eq", 1.0, 1, True),
        ("eq", True, 1, False),
        ("eq", 1.0, True, False),
        ("eq", "1", 1, False),
        ("eq", None, "de", False),
        ("ne", "de", "fr", True),
        ("ne", None, "fr", True),
        ("ne", "1", 1, True),
        ("gt", 2.0, 1, True),
        ("gt", 1.0, 1, False),
        ("gte", 1.0, 1, True),
        ("gt", "b", "a", True),
        ("gt", "b", 1, False),
        ("gt", True, 0, False),
        ("lt", None, 5, False),
        ("lte", 4.9, 5, True),
        ("in", "b", ["a", "b"], True),
        ("in", 2.0, ["2", 3], False),
        ("in", "a", [], False),
        ("in", None, ["a"], False),
        ("nin", "a", ["a"], False),
        ("nin", None, ["a"], True),
        ("nin", "a", [], True),
    ],
)
def test_a_comparison(type: str, held: Any, value: object, expected: bool) -> None:
    attributes = {} if held is None else {"k": held}
    assert matches(parse_filter(comparison(type, "k", value)), attributes) is expected


def test_filters_are_put_together() -> None:
    parsed = parse_filter(
        {
            "type": "and",
            "filters": [
                comparison("gte", "year", 2020),
                {
                    "type": "or",
                    "filters": [comparison("eq", "lang", "de"), comparison("eq", "lang", "fr")],
                },
            ],
        }
    )
    assert matches(parsed, {"year": 2021.0, "lang": "fr"})
    assert not matches(parsed, {"year": 2019.0, "lang": "fr"})
    assert not matches(parsed, {"year": 2021.0, "lang": "en"})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("eq", "filters"),
        ({}, "filters.type"),
        ({"type": ["eq"], "key": "a", "value": 1}, "filters.type"),
        (comparison("like", "a", "b"), "filters.type"),
        (comparison("eq", "", "b"), "filters.key"),
        ({"type": "eq", "key": "a"}, "filters.value"),
        (comparison("eq", "a", None), "filters.value"),
        (comparison("eq", "a", ["b"]), "filters.value"),
        (comparison("eq", "a", {"b": 1}), "filters.value"),
        (comparison("eq", "a", math.nan), "filters.value"),
        (comparison("eq", "a", 10**400), "filters.value"),
        (comparison("gt", "a", True), "filters.value"),
        (comparison("in", "a", "b"), "filters.value"),
        (comparison("in", "a", [None]), "filters.value[0]"),
        (comparison("in", "a", [1] * 1001), "filters.value"),
        ({**comparison("eq", "a", 1), "filters": []}, "filters"),
        ({"type": "and", "filters": []}, "filters.filters"),
        ({"type": "or", "filters": [comparison("eq", "a", 1), 3]}, "filters.filters[1]"),
        ({"type": "and", "filters": [comparison("eq", "a", 1)] * 257}, "filters.filters"),
    ],
)
def test_what_is_no_filter_is_refused_by_place(value: Any, path: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter(value)
    assert caught.value.path == path
    assert path in str(caught.value)


def nested(depth: int) -> dict[str, object]:
    value = comparison("eq", "a", 1)
    for _ in range(depth - 1):
        value = {"type": "and", "filters": [value]}
    return value


def test_nesting_has_an_end() -> None:
    assert matches(parse_filter(nested(MAX_DEPTH)), {"a": 1.0})
    with pytest.raises(InvalidFilterError, match="nested"):
        parse_filter(nested(MAX_DEPTH + 1))
    with pytest.raises(InvalidFilterError, match="nested"):
        parse_filter(nested(100_000))


VALUES = st.one_of(st.sampled_from(["", "a", "b"]), st.sampled_from([0.0, 1.0, 2.5]), st.booleans())
KEYS = st.sampled_from(["x", "y"])
ORDERED = st.one_of(st.sampled_from(["", "a", "b"]), st.sampled_from([0.0, 1.0, 2.5]))
COMPARISONS = st.one_of(
    st.builds(comparison, st.sampled_from(["eq", "ne"]), KEYS, VALUES),
    st.builds(comparison, st.sampled_from(["gt", "gte", "lt", "lte"]), KEYS, ORDERED),
    st.builds(comparison, st.sampled_from(["in", "nin"]), KEYS, st.lists(VALUES, max_size=3)),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.builds(
        lambda type, filters: {"type": type, "filters": filters},
        st.sampled_from(["and", "or"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


def oracle(value: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    """By the words of the module: values are told apart by their type's name and value."""
    if "filters" in value:
        results = [oracle(part, attributes) for part in value["filters"]]
        return {"and": all, "or": any}[value["type"]](results)
    held, wanted = attributes.get(value["key"]), value["value"]
    tagged = (type(held).__name__, held)
    if value["type"] in ("in", "nin"):
        return (tagged in [(type(v).__name__, v) for v in wanted]) is (value["type"] == "in")
    same = tagged == (type(wanted).__name__, wanted)
    if value["type"] in ("eq", "ne"):
        return same is (value["type"] == "eq")
    if type(held) is not type(wanted):
        return False
    assert held is not None
    if value["type"] in ("gte", "lte") and held == wanted:
        return True
    return bool(held > wanted) if value["type"] in ("gt", "gte") else bool(held < wanted)


@given(FILTERS, st.dictionaries(KEYS, VALUES))
def test_matching_is_what_the_words_say(value: dict[str, Any], attributes: dict[str, Any]) -> None:
    assert matches(parse_filter(value), attributes) is oracle(value, attributes)


@given(FILTERS, FILTERS)
def test_equal_filters_have_equal_texts(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert canonical(parse_filter(one)) == canonical(parse_filter(one))
    if canonical(parse_filter(one)) == canonical(parse_filter(other)):
        assert parse_filter(one) == parse_filter(other)


@pytest.mark.parametrize(
    ("access", "groups", "expected"),
    [((), (), True), ((), ("hr",), True), (("hr",), (), False), (("hr", "it"), ("it",), True)],
)
def test_access(access: tuple[str, ...], groups: tuple[str, ...], expected: bool) -> None:
    assert may_see(access, groups) is expected
