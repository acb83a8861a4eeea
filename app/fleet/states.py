"""The states of a replica."""

from enum import StrEnum


class ReplicaState(StrEnum):
    """What may be sent to a replica, and why not.

    ```
    starting ─▶ warming ─▶ ready ◀─▶ cordoned
       any ─▶ away ─▶ warming          ready, cordoned ─▶ draining ─▶ (gone)
       any ─▶ refused
    ```
    """

    STARTING = "starting"
    """It hasn't answered yet."""
    WARMING = "warming"
    """It was met, and computes what the others' requests begin with."""
    READY = "ready"
    CORDONED = "cordoned"
    """An operator wants no new requests to go there."""
    DRAINING = "draining"
    """No new requests; it is forgotten when those under way have ended."""
    AWAY = "away"
    """It answered once, and doesn't now."""
    REFUSED = "refused"
    """It leaks between tenants, or serves something else than the other replicas."""
