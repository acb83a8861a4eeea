"""OpenAI's pages of lists: a limit, an order, and the id that a page begins or ends at. Pure."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.errors import InvalidRequestError
from retrieval import PageQuery

Item = TypeVar("Item")


class ListQuery(BaseModel):
    """The query of a list; unknown parameters are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: str | None = None
    before: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"


def cut_page(
    items: Sequence[Item], query: ListQuery, *, id_of: Callable[[Item], str]
) -> tuple[list[Item], bool]:
    """A page of items that come oldest first, and whether there are more in its direction.

    Raises:
        InvalidRequestError: no item has the id that the page is to begin or end at.
    """
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    places = {id_of(item): place for place, item in enumerate(ordered)}
    start = 0 if query.after is None else _place(places, query.after, "after") + 1
    stop = len(ordered) if query.before is None else _place(places, query.before, "before")
    window = ordered[start:stop]
    backwards = query.before is not None and query.after is None
    page = window[-query.limit :] if backwards else window[: query.limit]
    return page, len(window) > len(page)


def page_query(query: ListQuery) -> PageQuery:
    """The same as retrieval, which cuts its long lists itself, wants it."""
    return PageQuery(
        limit=query.limit,
        newest_first=query.order == "desc",
        after=query.after,
        before=query.before,
    )


def list_object(data: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """OpenAI's list."""
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def _place(places: dict[str, int], item_id: str, param: str) -> int:
    if item_id not in places:
        raise InvalidRequestError(
            f"{param}: {item_id!r} is not in this list; give the id of one of its items, or start "
            "from its beginning",
            param=param,
        )
    return places[item_id]
