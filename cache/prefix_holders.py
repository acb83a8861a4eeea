"""The replicas that a prefix index has heard of, and who holds anything on them."""

from collections.abc import Mapping

from cache.page_keys import KEY_BYTES, PageKeys, shared_pages
from cache.prefix_marks import Holder, Replica

# A leak in whoever forgets to end its flights must not become a leak here.
_MAX_FLIGHTS = 4096


class Holders:
    """Holders by salt and replica; one without marks and flights is forgotten."""

    def __init__(self) -> None:
        self.replicas: dict[str, Replica] = {}
        self._salts: dict[str, dict[Replica, Holder]] = {}

    def replica(self, name: str) -> Replica:
        found = self.replicas.get(name)
        if found is None:
            found = self.replicas[name] = Replica(name)
        return found

    def of_salt(self, salt: str) -> Mapping[Replica, Holder]:
        return self._salts.get(salt, {})

    def on(self, replica: Replica) -> list[Holder]:
        """All salts' holders on one replica."""
        return [found[replica] for found in self._salts.values() if replica in found]

    def holder(self, salt: str, replica: Replica) -> Holder:
        holders = self._salts.setdefault(salt, {})
        found = holders.get(replica)
        if found is None:
            found = holders[replica] = Holder(salt, replica)
        return found

    def sweep(self, holder: Holder) -> None:
        """Forgets a holder that has nothing left."""
        if holder.marks or holder.flights:
            return
        holders = self._salts.get(holder.salt, {})
        if holders.get(holder.replica) is holder:
            del holders[holder.replica]
        if not holders:
            self._salts.pop(holder.salt, None)


def take_off(holder: Holder, keys: PageKeys, at: float) -> None:
    """A request of the holder begins to compute a prompt."""
    if len(holder.flights) >= _MAX_FLIGHTS:
        del holder.flights[0]
    holder.flights.append((at, keys))


def land(holder: Holder, keys: PageKeys) -> None:
    """Ends all flights whose pages are all among those that now exist."""
    if holder.flights:
        holder.flights = [flight for flight in holder.flights if not _covers(keys, flight[1])]


def call_off(holder: Holder, keys: PageKeys) -> None:
    """Ends the latest flight with exactly these pages, if there is one."""
    same = [flight for flight in holder.flights if flight[1] == keys]
    if same:
        holder.flights.remove(max(same, key=lambda flight: flight[0]))


def racing_pages(holder: Holder, packed: bytes, *, sent_at: float, left: int) -> int:
    """The longest prefix, `left` at least, that a flight begun by then is computing."""
    most = left
    for at, keys in holder.flights:
        page = slice(most * KEY_BYTES, (most + 1) * KEY_BYTES)
        if at <= sent_at and keys.packed[page] == packed[page] != b"":
            most = shared_pages(keys.packed, 0, packed, 0)
    return most


def _covers(keys: PageKeys, other: PageKeys) -> bool:
    last = len(other.packed)
    return keys.packed[last - KEY_BYTES : last] == other.packed[-KEY_BYTES:] if last else True
