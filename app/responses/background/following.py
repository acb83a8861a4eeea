"""Who follows a response is told when there is more of it."""

from weakref import WeakValueDictionary

import anyio

# Of a response that another gateway makes nobody hears here.
_LOOK_S = 0.5


class _News:
    """More of one response, for all who follow it."""

    __slots__ = ("__weakref__", "event")

    def __init__(self) -> None:
        self.event = anyio.Event()


class Followers:
    """One event loop owns it."""

    def __init__(self) -> None:
        self._news: WeakValueDictionary[str, _News] = WeakValueDictionary()

    def expects(self, response_id: str) -> "Expectation":
        """To be made before one looks, so that what comes after that look is heard."""
        news = self._news.get(response_id)
        if news is None:
            news = self._news[response_id] = _News()
        return Expectation(news)

    def tell(self, response_id: str) -> None:
        """There is more of it."""
        news = self._news.pop(response_id, None)
        if news is not None:
            news.event.set()


class Expectation:
    """Of the next news of one response."""

    def __init__(self, news: _News) -> None:
        self._news = news

    async def wait(self) -> None:
        """Until there is more, or may be."""
        with anyio.move_on_after(_LOOK_S):
            await self._news.event.wait()
