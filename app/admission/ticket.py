"""What a request holds that was let in."""

from collections.abc import Callable


class Ticket:
    """Counts what its request uses; to be closed when that has ended, however it did.

    Args:
        tokens: what it was let in for.
        waited_s: how long it waited for its turn.
        ended: is told once the tokens that were used.
    """

    __slots__ = ("_ended", "_used", "tokens", "waited_s")

    def __init__(self, tokens: int, waited_s: float, *, ended: Callable[[int], None]) -> None:
        self.tokens = tokens
        self.waited_s = waited_s
        self._used = 0
        self._ended: Callable[[int], None] | None = ended

    def used(self, *tokens: int | None) -> None:
        """So many more were used; what isn't known counts for nothing."""
        for some in tokens:
            if some is not None:
                self._used += some

    def close(self) -> None:
        """The request has ended; to say so twice does no harm."""
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self._used)
