"""Copies that wait to be sent: few, of each conversation one at a time. Pure."""

from collections import OrderedDict, deque

from app.shadow.copies import ShadowCopy

_MOST_CONVERSATIONS = 10_000


class Backlog:
    """A bounded queue in which a conversation's turns keep their order.

    A turn must come after the answer to the one before: else the target would lack what the live
    engine had, and their re-use couldn't be compared.
    """

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[ShadowCopy] = deque()
        self._bytes = 0
        self._under_way: set[str] = set()
        # Whether the target has got all of a conversation so far.
        self._whole: OrderedDict[str, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """How many were taken and aren't done."""
        return len(self._under_way)

    def put(self, copy: ShadowCopy) -> bool:
        """Whether there was room for it."""
        size = self._bytes + copy.size_bytes
        if len(self._waiting) >= self._most or size > self._most_bytes:
            self.broken(copy)
            return False
        if copy.is_first:
            self._note(copy.conversation, whole=True)
        self._waiting.append(copy)
        self._bytes = size
        return True

    def take(self) -> ShadowCopy | None:
        """The next one whose conversation isn't under way; `done` must follow."""
        for place, copy in enumerate(self._waiting):
            if copy.conversation not in self._under_way:
                del self._waiting[place]
                self._bytes -= copy.size_bytes
                self._under_way.add(copy.conversation)
                return copy
        return None

    def done(self, copy: ShadowCopy) -> None:
        """It was sent, or was given up: its conversation's next turn may go."""
        self._under_way.discard(copy.conversation)

    def is_whole(self, copy: ShadowCopy) -> bool:
        """Whether the target has seen all of its conversation that came before it."""
        return copy.is_first or self._whole.get(copy.conversation, False)

    def broken(self, copy: ShadowCopy) -> None:
        """The target hasn't got this turn: what follows can't be compared for re-use."""
        self._note(copy.conversation, whole=False)

    def clear(self) -> int:
        """Drop all that waits; how many there were."""
        dropped = len(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return dropped

    def _note(self, conversation: str, *, whole: bool) -> None:
        self._whole[conversation] = whole
        self._whole.move_to_end(conversation)
        if len(self._whole) > _MOST_CONVERSATIONS:
            self._whole.popitem(last=False)
