"""Pages of a list, as OpenAI cuts them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.paging import ListQuery, cut_page, list_object

ITEMS = [f"i{n}" for n in range(10)]


def page(items: list[str], **query: Any) -> tuple[list[str], bool]:
    return cut_page(items, ListQuery(**query), id_of=str)


@given(st.integers(0, 30), st.integers(1, 12), st.sampled_from(["asc", "desc"]))
def test_following_the_last_id_sees_everything_once(count: int, limit: int, order: str) -> None:
    items = [f"i{n}" for n in range(count)]
    seen: list[str] = []
    more = True
    while more:
        after = {"after": seen[-1]} if seen else {}
        found, more = page(items, limit=limit, order=order, **after)
        assert len(found) <= limit
        assert found or not more
        seen += found
    assert seen == (items if order == "asc" else items[::-1])


def test_the_newest_come_first_unless_asked_otherwise() -> None:
    assert page(ITEMS, limit=2) == (["i9", "i8"], True)
    assert page(ITEMS, limit=2, order="asc") == (["i0", "i1"], True)


def test_before_is_the_page_that_ends_there() -> None:
    assert page(ITEMS, order="asc", before="i5", limit=2) == (["i3", "i4"], True)
    assert page(ITEMS, order="asc", before="i2", limit=2) == (["i0", "i1"], False)
    assert page(ITEMS, order="asc", after="i2", before="i6", limit=2) == (["i3", "i4"], True)


def test_an_id_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidRequestError, match="'i99' is not in this list") as caught:
        page(ITEMS, after="i99")
    assert caught.value.param == "after"


def test_a_list_names_its_ends() -> None:
    made = list_object([{"id": "a"}, {"id": "b"}], has_more=True)
    assert (made["first_id"], made["last_id"], made["has_more"]) == ("a", "b", True)
    empty = list_object([], has_more=False)
    assert (empty["first_id"], empty["last_id"]) == (None, None)
