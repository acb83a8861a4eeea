"""Which replica a request goes to: pure decisions over what is known of each.

The default takes the replica with the least estimated time to the first token: seconds of prefill
that wait there, seconds to compute what it doesn't hold, and seconds to load what the tiers hold.
"""

from app.routing.hashing import ConsistentHash
from app.routing.least_loaded import LeastLoaded
from app.routing.least_ttft import LeastTtft
from app.routing.policies import open_policy
from app.routing.round_robin import RoundRobin
from app.routing.types import (
    Candidate,
    ReplicaLoad,
    Route,
    RouteRequest,
    RoutingPolicy,
)

__all__ = [
    "Candidate",
    "ConsistentHash",
    "LeastLoaded",
    "LeastTtft",
    "ReplicaLoad",
    "RoundRobin",
    "Route",
    "RouteRequest",
    "RoutingPolicy",
    "open_policy",
]
