"""How much is remembered of prompts goes with what the engines can hold."""

from dataclasses import replace

import pytest

from app.books import BookShelf
from app.settings import AccountingSettings
from tests.app.test_removed_replicas import VIEW


@pytest.mark.parametrize(
    ("given", "pool_tokens", "pages"),
    [
        (None, 16_000, 250_000),
        (None, 900_000, 900_000),
        (None, 50_000_000, 4_000_000),
        (None, None, 1_000_000),
        (7, 900_000, 7),
    ],
)
def test_the_index_has_room_for_several_pools(
    given: int | None, pool_tokens: int | None, pages: int
) -> None:
    info = replace(VIEW.info, pool_tokens=pool_tokens, page_tokens=16)
    shelf = BookShelf(AccountingSettings(max_pages=given), key=b"k")
    assert shelf.of(replace(VIEW, info=info)).index.max_pages == pages
