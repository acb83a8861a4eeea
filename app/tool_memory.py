"""What conversations' prompts show of tools, remembered under a digest of what was said.

Clients send their whole conversation again, and only the list of tools as it is now. What was
forgotten costs some re-use, never an answer. One event loop owns it.
"""

from collections import OrderedDict
from collections.abc import Sequence

from app.conversations import conversation_keys
from prompts import Message
from prompts.tool_changes import ToolHistory

_ENTRY_BYTES = 600


class ToolLists:
    """Histories of conversations' tools, the least recently used forgotten first."""

    def __init__(self, *, max_bytes: int = 32 * 2**20) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, tuple[str, ToolHistory, int]] = OrderedDict()
        self._tenants: dict[str, int] = {}
        self.held_bytes = 0

    def knows(self, tenant: str) -> bool:
        """Whether a conversation of the tenant with tools is remembered."""
        return tenant in self._tenants

    def find(self, key: bytes) -> ToolHistory | None:
        """What is remembered of a conversation."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return kept[1]

    def keep(self, key: bytes, tenant: str, history: ToolHistory) -> None:
        """Remember a conversation up to an answer."""
        self._drop(key)
        weight = _ENTRY_BYTES + sum(len(tool.json) for tool in (*history.base, *history.told))
        weight += sum(len(each.text) for each in history.announcements)
        self._kept[key] = (tenant, history, weight)
        self._tenants[tenant] = self._tenants.get(tenant, 0) + 1
        self.held_bytes += weight
        while self.held_bytes > self._max_bytes and self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        tenant, _, weight = kept
        self.held_bytes -= weight
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]


def tool_key(about: Sequence[str], messages: Sequence[Message]) -> bytes:
    """What a conversation up to its last message is remembered under."""
    return conversation_keys(about, messages)[-1]
