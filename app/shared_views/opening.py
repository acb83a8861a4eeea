"""Shared views as the gateway's settings want them."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from app.books import BookShelf
from app.errors import InvalidSettingError
from app.fleet.fleet import Fleet
from app.settings import Settings

if TYPE_CHECKING:
    from app.shared_views.outbox import Outbox
    from app.shared_views.views import SharedViews


def open_outbox(settings: Settings) -> "Outbox | None":
    """Where notes for other gateways wait; None: there are no others."""
    if settings.gateway.redis_url is None:
        return None
    from app.shared_views.outbox import Outbox  # with it comes the cipher, which takes memory

    return Outbox()


def open_shared_views(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    secret: bytes,
    outbox: "Outbox | None",
    shelf: BookShelf,
    fleet: Fleet,
) -> "SharedViews | None":
    """Nothing is asked yet.

    Raises:
        InvalidSettingError: that is not Redis's URL.
    """
    url = settings.gateway.redis_url
    if url is None or outbox is None:
        return None
    from app.shared_views.views import SharedViews

    try:
        views = SharedViews(
            url.get_secret_value(), secret=secret, outbox=outbox, shelf=shelf, fleet=fleet
        )
    except ValueError as error:
        raise InvalidSettingError("gateway.redis_url", f"not a redis:// URL: {error}") from error
    stack.push_async_callback(views.close)
    return views
