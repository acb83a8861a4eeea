"""One byte form for each value."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import canonical_json, canonical_text

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcdef", max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(texts)
def test_text_is_canonical_after_one_go(text: str) -> None:
    once = canonical_text(text)
    assert canonical_text(once) == once or once.startswith("\ufeff")
    assert unicodedata.is_normalized("NFC", once)
    assert "\r" not in once


def test_line_ends_and_byte_order_mark() -> None:
    assert canonical_text("\ufeffa\r\nb\rc\n") == "a\nb\nc\n"


@given(values)
def test_json_means_the_same_after_it(value: object) -> None:
    spelled = canonical_json(value)  # type: ignore[arg-type]
    assert canonical_json(json.loads(spelled)) == spelled


@given(st.dictionaries(st.text("abcdef", max_size=4), st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(mapping: dict[str, int], random: object) -> None:
    items = list(mapping.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical_json(dict(items)) == canonical_json(mapping)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"é": 1, "e\u0301": 2}, "\ud800"])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON|two keys|surrogate"):
        canonical_json(value)  # type: ignore[arg-type]
