"""The replicas that a prefix index has heard of, and who holds anything on them."""

from collections.abc import Mapping

from cache.page_keys import KEY_BYTES, PageKeys, shared_pages
from cache.prefix_marks import Holder, Replica

# A leak in whoever forgets to end its flights must not become a leak here.
MAX_FLIGHTS = 4096
NOBODY: Mapping[Replica, Holder] = {}


class Holders:
    """Holders by salt and replica; one without marks and flights is forgotten."""

    def __init__(self) -> None:
        self.replicas: dict[str, Replica] = {}
        self.salts: dict[str, dict[Replica, Holder]] = {}

    def replica(self, name: str) -> Replica:
        found = self.replicas.get(name)
        if found is None:
            found = self.replicas[name] = Replica(name)
        return found

    def on_replica(self, salt: str, name: str) -> Holder:
        """The holder of a salt on a replica, both new ones if need be."""
        replica = self.replicas.get(name) or self.replica(name)
        found = self.salts.get(salt, NOBODY).get(replica)
        return found or self.holder(salt, replica)

    def on(self, replica: Replica) -> list[Holder]:
        """All salts' holders on one replica."""
        return [found[replica] for found in self.salts.values() if replica in found]

    def holder(self, salt: str, replica: Replica) -> Holder:
        holders = self.salts.setdefault(salt, {})
        found = holders.get(replica)
        if found is None:
            found = holders[replica] = Holder(salt, replica)
        return found

    def sweep(self, holder: Holder) -> None:
        """Forgets a holder that has nothing left."""
        if holder.marks or holder.flights:
            return
        holders = self.salts.get(holder.salt, {})
        if holders.get(holder.replica) is holder:
            del holders[holder.replica]
        if not holders:
            self.salts.pop(holder.salt, None)


def land(holder: Holder, keys: PageKeys) -> None:
    """Ends all flights whose pages are all among those that now exist."""
    packed, flying = keys.packed, []
    for flight in holder.flights:
        other = flight[1].packed
        last = len(other)
        if last and packed[last - KEY_BYTES : last] != other[-KEY_BYTES:]:
            flying.append(flight)
    holder.flights = flying


def call_off(holder: Holder, keys: PageKeys) -> None:
    """Ends the latest flight with exactly these pages, if there is one."""
    same = [flight for flight in holder.flights if flight[1] == keys]
    if same:
        holder.flights.remove(max(same, key=lambda flight: flight[0]))


def racing_pages(holder: Holder, packed: bytes, *, sent_at: float, left: int) -> int:
    """The longest prefix, `left` at least, that a flight begun by then is computing."""
    most, at_page = left, left * KEY_BYTES
    page = packed[at_page : at_page + KEY_BYTES]
    for at, keys in holder.flights:
        if at <= sent_at and keys.packed[at_page : at_page + KEY_BYTES] == page != b"":
            most = shared_pages(keys.packed, 0, packed, 0)
            at_page = most * KEY_BYTES
            page = packed[at_page : at_page + KEY_BYTES]
    return most
