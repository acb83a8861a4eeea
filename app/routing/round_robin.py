"""Each replica in turn."""

from collections.abc import Sequence

from app.routing.types import Candidate, Route, RouteRequest


class RoundRobin:
    """The replica after the one that was chosen last, by name."""

    def __init__(self) -> None:
        self._last = ""

    def choose(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Route:
        if not candidates:
            raise ValueError("there is no replica to choose from")
        names = sorted(c.name for c in candidates)
        at = next((i for i, name in enumerate(names) if name > self._last), 0)
        self._last = names[at]
        return Route(replica=names[at], reason="its turn", order=(*names[at:], *names[:at]))
