"""One byte form for each value."""

import decimal
import json
import math
import unicodedata
from decimal import Decimal
from enum import StrEnum
from random import Random
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import canonical_json, canonical_text, parse_json
from prompts.canonical import canonical_value, spell_number

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcdef", max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(texts)
def test_text_is_canonical_after_one_go(text: str) -> None:
    once = canonical_text(text)
    assert canonical_text(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert "\r" not in once
    assert not once.startswith("\ufeff")


def test_line_ends_and_byte_order_mark() -> None:
    assert canonical_text("\ufeffa\r\nb\rc\n") == "a\nb\nc\n"
    assert canonical_text("\ufeff\ufeffa\ufeff") == "a\ufeff"


@given(texts)
def test_what_a_text_means_is_kept(text: str) -> None:
    kept = canonical_text(text)
    for ends in ("\r\n", "\r"):
        text = text.replace(ends, "\n")
    text = text.lstrip("\ufeff")
    assert unicodedata.normalize("NFD", kept) == unicodedata.normalize("NFD", text)


@given(values)
def test_json_means_the_same_after_it(value: object) -> None:
    spelled = canonical_json(value)
    assert json.loads(spelled) == json.loads(json.dumps(canonical_value(value), default=float))
    assert canonical_json(json.loads(spelled)) == spelled
    assert canonical_json(parse_json(spelled)) == spelled


@given(st.dictionaries(st.text("abcdef", max_size=4), st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(mapping: dict[str, int], random: Random) -> None:
    items = list(mapping.items())
    random.shuffle(items)
    assert canonical_json({"in": dict(items)}) == canonical_json({"in": mapping})


@given(st.dictionaries(texts, st.integers(), max_size=6, dict_class=dict))
def test_a_mapping_is_gone_through_in_the_order_of_its_keys(mapping: dict[str, int]) -> None:
    try:
        value = canonical_value(mapping)
    except ValueError:
        return
    assert isinstance(value, dict)
    assert list(value) == sorted(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_as_itself(number: float) -> None:
    assert float(spell_number(number)) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_every_digit_of_a_decimal_is_kept(number: Decimal) -> None:
    assert Decimal(spell_number(number)) == number


@pytest.mark.parametrize(
    ("spellings", "one"),
    [
        (("1", "1.0", "1e0", "10e-1", "0.1E+1"), "1"),
        (("0", "-0", "-0.0", "0e9"), "0"),
        (("12.50", "1.25e1", "1250e-2"), "12.5"),
        (("1e-7", "0.0000001"), "1e-7"),
        (("0.000001", "1E-6"), "0.000001"),
        (("9007199254740992.0", "9007199254740992"), "9007199254740992"),
        (("1e22", "1E+22", "10.0e21"), "1e22"),
        (("123456789012345678901234567890",), "123456789012345678901234567890"),
        (("0.1000000000000000055511151231257827",), "0.1000000000000000055511151231257827"),
        (("1e400",), "1e400"),
    ],
)
def test_numbers_that_are_equal_are_spelled_alike(spellings: tuple[str, ...], one: str) -> None:
    assert {canonical_json(parse_json(spelling)) for spelling in spellings} == {one}


def test_a_threads_decimal_context_does_not_show() -> None:
    number = Decimal("9007199254740991.00")
    with decimal.localcontext(prec=1):
        assert spell_number(number) == "9007199254740991"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "can't spell"),
        (math.inf, "can't spell"),
        (Decimal("sNaN"), "can't spell"),
        ({"é": 1, "e\u0301": 2}, "two keys"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({1: 2}, "keys are text"),
        ({1, 2}, "holds a set"),
        (b"x", "holds a bytes"),
        (object(), "holds a object"),
    ],
)
def test_what_has_no_canonical_form_is_refused(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        canonical_json([value])


class Colour(StrEnum):
    RED = "r\u0065\u0301d"


def test_other_mappings_and_texts_are_taken_for_what_they_are() -> None:
    value = MappingProxyType({"b": (1, True, None), "a": Colour.RED})
    assert canonical_json(value) == '{"a":"r\u00e9d","b":[1,true,null]}'


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueError, match="deeper than 100"):
        canonical_json(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "'a' twice"),
        ("[NaN]", "no JSON number"),
        ("[-Infinity]", "no JSON number"),
        ("[1,]", "Expecting value|Illegal trailing comma"),
        ("[" * 100_000, "nested deeper"),
    ],
)
def test_json_text_without_one_meaning_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(text)
