"""Page keys stand for prefixes."""

from array import array

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cache.page_keys import PageKeyMaker, PageKeys

PAGE = 3
MAKER = PageKeyMaker(page_tokens=PAGE, key=b"secret")
ids = st.lists(st.integers(0, 3), max_size=30)


@given(ids, ids)
def test_keys_share_exactly_the_pages_that_the_prompts_share(
    one: list[int], two: list[int]
) -> None:
    shared = 0
    while (shared + 1) * PAGE <= min(len(one), len(two)) and (
        one[: (shared + 1) * PAGE] == two[: (shared + 1) * PAGE]
    ):
        shared += 1
    assert MAKER.keys(one).shared(MAKER.keys(two)) == shared
    assert len(MAKER.keys(one)) == len(one) // PAGE


@given(ids, st.integers(0, 10))
def test_keys_can_be_continued(prompt: list[int], page: int) -> None:
    whole = MAKER.keys(prompt)
    page = min(page, len(whole))
    first = whole.prefix(page)
    last = first.key(page - 1) if page else b""
    assert first.packed + MAKER.after(last, page, prompt[page * PAGE :]) == whole.packed


@given(st.lists(st.integers(0, 2**32 - 1), max_size=200), st.integers(0, 200))
def test_a_longer_prompt_has_the_keys_of_its_beginning_and_more(
    prompt: list[int], cut: int
) -> None:
    longer = MAKER.keys(prompt)
    assert MAKER.extended(MAKER.keys(prompt[:cut]), array("I", prompt).tobytes()) == longer


@pytest.mark.parametrize("page", [PAGE, 8])
@given(made=st.lists(ids, max_size=4), prompt=ids, start=st.integers(0, 3))
def test_keys_that_were_made_lately_are_the_same_when_they_are_asked_for_again(
    page: int, made: list[list[int]], prompt: list[int], start: int
) -> None:
    maker = PageKeyMaker(page_tokens=page, key=b"secret")
    for earlier in made:
        maker.keys(earlier)
    whole = PageKeyMaker(page_tokens=page, key=b"secret").keys(prompt)
    start = min(start, len(whole))
    last = whole.key(start - 1) if start else b""
    for _ in range(2):
        again = maker.noted(last, start, prompt[start * page :])
        assert whole.prefix(start).packed + again == whole.packed


@given(ids)
def test_all_forms_of_ids_make_the_same_keys(prompt: list[int]) -> None:
    packed = array("I", prompt)
    keys = MAKER.keys(prompt)
    assert MAKER.keys(tuple(prompt)) == MAKER.keys(packed) == MAKER.keys(packed.tobytes()) == keys


def test_keys_depend_on_the_secret_and_are_secret_without_one() -> None:
    prompt = list(range(9))
    same = PageKeyMaker(page_tokens=PAGE, key=b"secret").keys(prompt)
    assert same == MAKER.keys(prompt)
    others = [PageKeyMaker(page_tokens=PAGE, key=key).keys(prompt) for key in (b"", b"", b"other")]
    assert len({keys.packed for keys in [same, *others]}) == 4


def test_long_prompts_keep_the_keys_of_their_beginning() -> None:
    maker = PageKeyMaker(page_tokens=16, key=b"secret")
    prompt = array("I", range(131_072))
    short = maker.keys(prompt[:4_096])
    assert maker.keys(prompt).prefix(256) == short
    assert len(maker.keys(prompt)) == 8_192


def test_equal_pages_in_other_places_have_other_keys() -> None:
    keys = MAKER.keys([7, 7, 7] * 50)
    assert len({keys.key(page) for page in range(50)}) == 50


def test_less_than_a_page_has_no_keys() -> None:
    assert MAKER.keys([]) == MAKER.keys([1, 2]) == PageKeys()


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_ids_beyond_32_bits_are_refused(token_id: int) -> None:
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        MAKER.keys([token_id] * PAGE)


def test_pages_without_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="page_tokens is 0"):
        PageKeyMaker(page_tokens=0)
