"""The replica with the least to do, whatever it holds."""

from collections.abc import Sequence

from app.routing.hashing import drawn
from app.routing.types import Candidate, Route, RouteRequest


class LeastLoaded:
    """Fewest tokens to compute, then fewest requests, then by the opening."""

    def choose(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Route:
        if not candidates:
            raise ValueError("there is no replica to choose from")
        draws = drawn(request.affinity, candidates)
        ordered = sorted(candidates, key=lambda c: (_load(c), draws[c.name]))
        chosen = ordered[0]
        tokens, requests = _load(chosen)
        return Route(
            replica=chosen.name,
            reason=f"least to do: {tokens:,} tokens wait, {requests} requests",
            order=tuple(c.name for c in ordered),
        )


def _load(candidate: Candidate) -> tuple[int, int]:
    load = candidate.load
    tokens = (load.waiting_uncached_tokens or 0) + load.unseen_tokens
    engine = (load.running or 0) + (load.waiting or 0)
    return tokens, max(engine, candidate.in_flight)
