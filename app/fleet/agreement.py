"""What all replicas serve: the first that is met says so, and who differs is left out."""

from collections.abc import Sequence
from dataclasses import replace

from app.replica import Replica
from app.replica_view import ReplicaView


class Agreement:
    """Between those replicas that were met.

    Attributes:
        common: the view of all that agree, with the window and the pool of the smallest; the same
            object while it holds. None: there is none.
    """

    def __init__(self) -> None:
        self.common: ReplicaView | None = None
        self._settled: dict[str, ReplicaView] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a replica agrees with the others."""
        return name in self._settled

    def forget(self, name: str) -> None:
        """It is no replica any more."""
        self._settled.pop(name, None)

    def settle(self, replicas: Sequence[Replica]) -> None:
        """See anew what all serve, and tell each what keeps it out."""
        met = [(r, view) for r in replicas if (view := r.seen) is not None]
        leads = [view for r, view in met if r.name in self._settled and r.mismatch is None]
        lead = leads[0] if leads else (met[0][1] if met else None)
        self._settled = {}
        for replica, view in met:
            assert lead is not None
            replica.mismatch = lead.difference(view)
            if replica.mismatch is None:
                self._settled[replica.name] = view
        self.common = _smallest(self.common, list(self._settled.values()))


def _smallest(before: ReplicaView | None, views: list[ReplicaView]) -> ReplicaView | None:
    """The first view, with the smallest window and pool of all; the same object while it holds."""
    if len(views) <= 1:
        return views[0] if views else None
    first = views[0]
    pools = [view.info.pool_tokens for view in views if view.info.pool_tokens is not None]
    info = replace(
        first.info,
        context_tokens=min(view.info.context_tokens for view in views),
        pool_tokens=min(pools, default=None),
        adapters=tuple(sorted({name for view in views for name in view.info.adapters})),
    )
    made = replace(first, info=info)
    return before if before == made else made
