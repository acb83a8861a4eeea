"""Pages of long lists, cut by the database: a page costs what it holds, however long the list is.

As OpenAI's lists: a limit, a direction, and the ids between which the page lies.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select

from retrieval.errors import NotInListError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """Which part of a list is wanted.

    Attributes:
        after, before: ids that it begins behind and ends before, in the list's direction. With
            `before` alone it is the page that ends there.
    """

    limit: int
    newest_first: bool = True
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """A part of a list; whether there are more items in its direction."""

    items: tuple[Item, ...]
    has_more: bool


def select_page(
    connection: Connection,
    query: Select[Any],
    page: PageQuery,
    *,
    id: ColumnElement[str],
    serial: ColumnElement[int],
) -> Page[Row[Any]]:
    """A page of a query's rows.

    Args:
        query: the whole list, without an order.
        id, serial: the columns that name and order its items; it orders by them alone.

    Raises:
        NotInListError: no item of the list has the id that the page is to begin or end at.
    """
    whole, backwards = query, page.before is not None and page.after is None
    if page.after is not None:
        start = _serial_at(connection, whole, page.after, "after", id, serial)
        query = query.where(serial < start if page.newest_first else serial > start)
    if page.before is not None:
        stop = _serial_at(connection, whole, page.before, "before", id, serial)
        query = query.where(serial > stop if page.newest_first else serial < stop)
    descending = page.newest_first is not backwards
    ordered = query.order_by(serial.desc() if descending else serial).limit(page.limit + 1)
    rows = connection.execute(ordered).all()
    found = rows[: page.limit]
    items = tuple(reversed(found)) if backwards else tuple(found)
    return Page(items=items, has_more=len(rows) > page.limit)


def _serial_at(
    connection: Connection,
    query: Select[Any],
    item_id: str,
    param: str,
    id: ColumnElement[str],
    serial: ColumnElement[int],
) -> int:
    place = query.with_only_columns(serial, maintain_column_froms=True).where(id == item_id)
    found = connection.execute(place).scalar_one_or_none()
    if found is None:
        raise NotInListError(param, item_id)
    return int(found)
