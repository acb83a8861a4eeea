"""No log, however odd, makes the diagnosis fail, and its figures always make sense."""

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.request_log import LogOptions, diagnose, render_text, to_json
from cache.request_log.bodies import LogLineError, parse_line
from cache.request_log.pieces import split_blocks, split_pieces
from prompts.shared_length import shared_length

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("messages", "input", "body", "response", "role", "content", "tools", "type"),
                    *("choices", "tool_calls", "function", "name", "arguments", "usage", "output"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_TEXT = st.lists(
    st.sampled_from(
        (
            *(
                "Be brief.\n",
                "Now: 2026-11-29 10:01:00\n",
                "id 7f3a9bc4\n",
                "Rules. " * 60,
                "a, b; ",
            ),
            *("\ufeff", "\r\n", '{"b": 1, "a": 2}', "<think>hm</think>", "é", "e\u0301", "", "{}"),
        )
    ),
    max_size=5,
).map("".join)
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": _TEXT}
)
_TOOL = st.sampled_from(["x", "y", "z"]).map(
    lambda name: {"type": "function", "function": {"name": name, "parameters": {}}}
)
_BODY = st.fixed_dictionaries(
    {"messages": st.lists(_MESSAGE, min_size=1, max_size=5)},
    optional={"tools": st.lists(_TOOL, max_size=3), "cache_salt": st.sampled_from(["a", "b"])},
)


@given(_JSON)
def test_any_json_is_a_request_or_a_line_error(value: object) -> None:
    """Logs hold anything."""
    try:
        assert parse_line(orjson.dumps(value)).messages
    except LogLineError:
        return


@settings(max_examples=60)
@given(st.lists(_BODY, max_size=8), st.integers(1, 70))
def test_any_log_is_diagnosed(bodies: list[dict[str, object]], page_size: int) -> None:
    """Cached tokens never exceed prompts; both outputs can be written."""
    lines = [orjson.dumps(body) for body in bodies for _ in range(2)]
    diagnosis = diagnose(lines, LogOptions(page_size=page_size))
    rates = diagnosis.rates
    assert diagnosis.requests == len(lines)
    assert 0 <= rates.cached_tokens <= rates.prompt_tokens
    assert 0 <= rates.repaired_cached_tokens <= rates.repaired_prompt_tokens
    assert sum(group.requests for group in diagnosis.groups) == len(lines)
    assert render_text(diagnosis)
    assert orjson.dumps(to_json(diagnosis))


@given(st.text(st.sampled_from("ab.,;>\n\r\u2028 "), max_size=900))
def test_pieces_and_blocks_are_the_text(text: str) -> None:
    """Cutting loses nothing."""
    pieces = split_pieces(text)
    assert "".join(pieces) == text
    assert [piece for block in split_blocks(pieces) for piece in block] == pieces


@given(st.text("ab", max_size=40), st.text("ab", max_size=40))
def test_the_shared_length_is_that_of_the_common_prefix(one: str, other: str) -> None:
    """As comparing character by character finds it."""
    pairs = zip(one, other, strict=False)
    plain = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    assert shared_length(one, other) == plain


@pytest.mark.parametrize("repeats", [1, 2, 50])
def test_the_same_request_again_and_again_is_clean(repeats: int) -> None:
    """A retry is no fault."""
    line = orjson.dumps({"messages": [{"role": "user", "content": "Now it is 10:00. " * 90}]})
    assert not diagnose([line] * repeats, LogOptions()).findings
