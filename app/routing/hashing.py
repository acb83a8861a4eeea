"""Rendezvous hashing: equal openings go to equal replicas, whoever asks and whoever else is there.

Source: Thaler and Ravishankar 1998 (highest random weight); the bound on loads is that of Mirrokni,
Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2016.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import ceil

from app.routing.types import Candidate, Route, RouteRequest


def rank(affinity: bytes, name: str) -> bytes:
    """What a replica draws for an opening; the greatest wins."""
    return blake2b(affinity + b"/" + name.encode(), digest_size=8).digest()


def drawn(affinity: bytes, candidates: Iterable[Candidate]) -> dict[str, bytes]:
    """What each replica draws for an opening of any length."""
    digest = blake2b(affinity, digest_size=16).digest()
    return {c.name: rank(digest, c.name) for c in candidates}


class ConsistentHash:
    """The first replica in the opening's own order that hasn't too many requests already."""

    def __init__(self, *, bound: float = 1.25) -> None:
        """`bound`: most requests on one replica, as a multiple of the mean; >= 1."""
        if bound < 1:
            raise ValueError(f"bound is {bound}, but must be 1 or more")
        self._bound = bound

    def choose(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Route:
        if not candidates:
            raise ValueError("there is no replica to choose from")
        draws = drawn(request.affinity, candidates)
        ordered = sorted(candidates, key=lambda c: draws[c.name], reverse=True)
        flying = sum(c.in_flight for c in candidates)
        most = ceil(self._bound * (flying + 1) / len(candidates))
        # Somebody is always below: the bound is no less than the mean.
        at = next(i for i, c in enumerate(ordered) if c.in_flight < most)
        chosen = ordered.pop(at)
        passed = f", {at} before it were full ({most} in flight at most)" if at else ""
        return Route(
            replica=chosen.name,
            reason=f"the opening's place{passed}",
            order=(chosen.name, *(c.name for c in ordered)),
        )
