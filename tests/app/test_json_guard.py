"""JSON is bounded in depth and in number of containers, texts in neither."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.json_guard import loads
from app.settings import WireSettings

LIMITS = WireSettings(json_depth=8, json_containers=200)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(values)
def test_what_is_shallow_is_read_and_what_is_deep_is_not(value: object) -> None:
    raw = json.dumps(value).encode()
    if depth(value) <= 8:
        assert loads(raw, LIMITS) == value
    else:
        with pytest.raises(InvalidRequestError, match="in each other"):
            loads(raw, LIMITS)


def test_brackets_in_texts_are_texts() -> None:
    text = "for each { x[0] += 1 } " * 10_000
    assert loads(json.dumps([text]).encode(), LIMITS) == [text]


@pytest.mark.parametrize("number", [201, 100_000])
def test_too_many_lists_are_refused(number: int) -> None:
    with pytest.raises(InvalidRequestError, match="more than 200 lists"):
        loads(json.dumps([[]] * number).encode(), LIMITS)


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 100_000, b'"\xff"', b"NaN", b"\xef\xbb\xbf{}"])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        loads(raw, WireSettings())
