"""The routing policy that the settings name."""

from app.routing.hashing import ConsistentHash
from app.routing.least_loaded import LeastLoaded
from app.routing.least_ttft import LeastTtft
from app.routing.round_robin import RoundRobin
from app.routing.types import RoutingPolicy
from app.settings import RoutingSettings


def open_policy(settings: RoutingSettings) -> RoutingPolicy:
    """A policy with state of its own, for one gateway."""
    match settings.policy:
        case "least-ttft":
            return LeastTtft(
                load_weight=settings.load_weight,
                spread_weight=settings.spread_weight,
                balance_weight=settings.balance_weight,
                pool_full=settings.pool_full,
            )
        case "least-loaded":
            return LeastLoaded()
        case "consistent-hash":
            return ConsistentHash(bound=settings.hash_bound)
        case "round-robin":
            return RoundRobin()
