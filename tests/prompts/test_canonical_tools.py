"""Tools come in one order and one spelling, whoever lists them."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import Tool, canonical_tools
from prompts.segments import Prompt, Volatility

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place.\r\n",
        "parameters": {
            "type": "object",
            "properties": {
                "unit": {"type": ["string", "null"], "enum": ["f", "c"], "default": 1.0},
                "required": {"type": "string"},
                "at": {"anyOf": [{"required": ["b", "a"]}, {"type": "number"}]},
            },
            "required": ["unit", "required", "at"],
            "default": {"required": ["z", "a"]},
        },
    },
}
SEARCH = {"type": "function", "function": {"name": "search"}}


def shuffled(value: object, random: Random) -> object:
    """The same JSON with its keys, and the sets of its schemas, in another order."""
    if isinstance(value, dict):
        keys = sorted(value)
        random.shuffle(keys)
        return {key: shuffled(value[key], random) for key in keys}
    return value


@given(st.randoms())
def test_neither_the_order_of_tools_nor_of_keys_matters(random: Random) -> None:
    tools = [shuffled(tool, random) for tool in (WEATHER, SEARCH)]
    random.shuffle(tools)
    assert canonical_tools(tools) == canonical_tools([WEATHER, SEARCH])


def test_tools_are_sorted_by_name_and_spelled_canonically() -> None:
    weather, search = canonical_tools([SEARCH, WEATHER])
    assert (weather.name, search.name) == ("get_weather", "search")
    assert search.json == '{"function":{"name":"search"},"type":"function"}'
    assert json.loads(weather.json)["function"]["description"] == "Weather of a place.\n"


def test_lists_that_are_sets_are_sorted_and_others_are_kept() -> None:
    (tool,) = canonical_tools([WEATHER])
    schema = json.loads(tool.json)["function"]["parameters"]
    assert schema["required"] == ["at", "required", "unit"]
    assert schema["properties"]["unit"]["type"] == ["null", "string"]
    assert schema["properties"]["unit"]["enum"] == ["f", "c"]
    assert schema["properties"]["at"]["anyOf"][0]["required"] == ["a", "b"]
    assert schema["default"] == {"required": ["z", "a"]}
    assert schema["properties"]["required"] == {"type": "string"}


def test_canonical_tools_are_their_own_canonical_form() -> None:
    tools = canonical_tools([SEARCH, WEATHER])
    assert canonical_tools(tools) is tools
    assert canonical_tools([json.loads(tool.json) for tool in reversed(tools)]) == tools


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([SEARCH, SEARCH], "two tools called 'search'"),
        ([Tool(name="search", json="{}"), SEARCH], "two tools called 'search'"),
        ([{"type": "function"}], "function that has a name"),
        ([{"type": "function", "function": {"name": ""}}], "function that has a name"),
        (["search"], "function that has a name"),
        ([{"function": {"name": "x", "parameters": {"default": float("nan")}}}], "can't spell"),
    ],
)
def test_tools_without_a_canonical_form_are_refused(tools: list[object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        canonical_tools(tools)


def test_tools_are_part_of_the_fingerprint_where_they_are_static() -> None:
    tools = canonical_tools([SEARCH])

    def fingerprint(tools: tuple[Tool, ...], level: Volatility) -> str:
        return Prompt(template="t@1", segments=(), tools=tools, tools_volatility=level).fingerprint

    assert fingerprint(tools, Volatility.STATIC) != fingerprint((), Volatility.STATIC)
    assert fingerprint(tools, Volatility.SESSION) == fingerprint((), Volatility.SESSION)
