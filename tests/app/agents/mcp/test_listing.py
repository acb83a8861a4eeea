"""What a model is told of a server's tools: one order, one spelling, one digest, no surprises."""

import json
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from app.agents.mcp.errors import McpToolsError
from app.agents.mcp.lines import LineReader
from app.agents.mcp.listing import ToldTool, called, check_listing, differences
from app.agents.mcp.pins import pins_text

_FEW = settings(max_examples=40)
_NAMES = st.text("abcdefgXYZ019_.-/", min_size=1, max_size=90)
_SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_TOOLS = st.lists(
    st.builds(
        ToldTool,
        name=_NAMES,
        description=st.none() | st.text("ab \n\u00e9", max_size=20),
        schema=st.dictionaries(_NAMES, _SCHEMAS, max_size=3),
        idempotent_hint=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda tool: tool.name,
)


@_FEW
@given(tools=_TOOLS, random=st.randoms(use_true_random=False))
def test_no_order_changes_a_byte(tools: list[ToldTool], random: "st.Random") -> None:
    before = check_listing("s", tools)
    shuffled = random.sample(tools, len(tools))
    after = check_listing("s", shuffled)
    assert after.sha256 == before.sha256
    assert pins_text({"s": after}) == pins_text({"s": before})
    assert differences(before, after) == []


@_FEW
@given(tools=_TOOLS)
def test_names_that_differ_are_called_differently(tools: list[ToldTool]) -> None:
    names = {called("server", tool.name) for tool in tools}
    assert len(names) == len(tools)
    for name in names:
        assert len(name) <= 64
        assert name.replace("_", "a").replace("-", "a").isalnum()


def test_a_name_that_a_model_can_say_stays_as_it_is() -> None:
    assert called("time", "get_current_time") == "time__get_current_time"
    assert called("s", "a.b") != called("s", "a_b")


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([ToldTool(name="a", description="", schema={})] * 2, "two are called 'a'"),
        ([ToldTool(name="", description="", schema={})], "a name of 0 characters"),
        ([ToldTool(name="a\u0430", description="", schema={})], "plain ASCII"),
        ([ToldTool(name="a b", description="", schema={})], "without spaces"),
        ([ToldTool(name="a", description="\ud800", schema={})], "lone surrogate"),
        ([ToldTool(name="a", description="", schema={"x": "\u200b"})], r"U\+200B"),
        ([ToldTool(name="a", description="", schema={"\u2066": 1})], r"U\+2066"),
        ([ToldTool(name="a", description="", schema={"d": float("nan")})], "JSON can't spell"),
        (
            [ToldTool(name=f"t{n}", description="", schema={}) for n in range(200)],
            "they are 200; 128 are taken",
        ),
    ],
)
def test_tools_that_no_model_may_be_shown_are_refused(tools: list[ToldTool], problem: str) -> None:
    with pytest.raises(McpToolsError, match=problem):
        check_listing("s", tools)


def test_a_schema_that_is_nested_for_ever_is_refused() -> None:
    schema: dict[str, object] = {}
    for _ in range(200):
        schema = {"properties": schema}
    with pytest.raises(McpToolsError, match="nested deeper"):
        check_listing("s", [ToldTool(name="a", description="", schema=schema)])


def test_each_difference_is_told() -> None:
    def tool(name: str, **more: object) -> ToldTool:
        return ToldTool(**({"name": name, "description": "d", "schema": {}} | more))  # type: ignore[arg-type]

    before = check_listing("s", [tool("a"), tool("b"), tool("c"), tool("same")])
    after = check_listing(
        "s",
        [
            tool("same"),
            tool("new"),
            tool("b", description="other", schema={"type": "object"}),
            tool("c", idempotent_hint=True),
        ],
    )
    assert differences(before, after) == [
        "'new' is new",
        "'a' is gone",
        "'b' has another description and schema",
        "'c' has another hint",
    ]


@_FEW
@given(
    lines=st.lists(
        st.binary(max_size=3_000).map(lambda line: line.replace(b"\n", b"")), max_size=8
    ),
    cuts=st.lists(st.integers(0, 20_000), max_size=8),
)
def test_lines_come_whole_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    """And of one that is too long only its ends are kept."""
    stream = b"".join(line + b"\n" for line in lines)
    reader = LineReader(1_024)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    found = [line for start, end in pairwise(edges) for line in reader.feed(stream[start:end])]
    assert [line.size for line in found] == [len(line) for line in lines]
    for line, meant in zip(found, lines, strict=True):
        assert line.text == (meant if len(meant) <= 1_024 else None)
        assert line.head == meant[:512]
        assert line.tail == meant[-512:]


def test_a_file_of_pins_has_a_line_for_each_tool() -> None:
    tools = [ToldTool(name=name, description="d", schema={"n": 1e-7}) for name in "ba"]
    text = pins_text({"s": check_listing("s", tools)})
    assert [json.loads(line.rstrip(","))["name"] for line in text.splitlines()[2:4]] == ["a", "b"]
    assert json.loads(text)["format"] == 1
