import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.pages import DIGEST_BYTES, page_floor, page_hashes

token_ids = st.lists(st.integers(0, 2**32 - 1), max_size=70)
few_token_ids = st.lists(st.integers(0, 2), max_size=40)
page_sizes = st.integers(1, 20)


def shared_length(one: list[object], other: list[object]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@given(st.integers(0, 10**9), st.integers(1, 10**4))
def test_page_floor_is_the_largest_multiple_that_is_not_above(num_tokens: int, page: int) -> None:
    floor = page_floor(num_tokens, page_size=page)
    assert floor % page == 0
    assert floor <= num_tokens < floor + page


@given(token_ids, page_sizes)
def test_each_full_page_has_one_hash_and_the_rest_has_none(ids: list[int], page: int) -> None:
    hashes = page_hashes(ids, page_size=page)
    assert len(hashes) == len(ids) // page
    assert all(len(digest) == DIGEST_BYTES for digest in hashes)


@given(few_token_ids, few_token_ids, page_sizes)
def test_hashes_are_shared_exactly_as_far_as_pages_are(
    one: list[int], other: list[int], page: int
) -> None:
    shared_tokens = shared_length(one, other)
    hashes = page_hashes(one, page_size=page), page_hashes(other, page_size=page)
    assert shared_length(*hashes) == shared_tokens // page
    assert not set(hashes[0][shared_tokens // page :]) & set(hashes[1])


@given(token_ids, page_sizes, st.binary(max_size=80), st.binary(max_size=80))
def test_two_salts_share_no_hash(ids: list[int], page: int, one: bytes, other: bytes) -> None:
    first = page_hashes(ids, page_size=page, salt=one)
    second = page_hashes(ids, page_size=page, salt=other)
    assert first == second if one == other else not set(first) & set(second)


def test_hashes_are_the_same_in_any_process() -> None:
    code = (
        "from cache.pages import page_hashes;"
        "print(page_hashes(range(40), page_size=16, salt=b't')[1].hex())"
    )
    here = page_hashes(range(40), page_size=16, salt=b"t")[1].hex()
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert other.stdout.strip() == here == "889b1a73ee9baede6056aecaa44a238c"


@pytest.mark.parametrize("ids", [[-1], [2**32]])
def test_an_id_that_no_tokenizer_has_is_refused(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        page_hashes(ids, page_size=1)


def test_a_page_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="page_size is 0"):
        page_hashes([1], page_size=0)
    with pytest.raises(ValueError, match="num_tokens is -1"):
        page_floor(-1, page_size=1)
