"""What replicas and their tiers keep and tell, as the accountant wants it."""

from app.replica import Replica
from app.replica_view import ReplicaView
from cache.accounting import EngineRules

_Facts = tuple[object, ...]


class KnownRules:
    """Rules by replica; the same object while nothing changes, since each request asks."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Facts, EngineRules]] = {}

    def forget(self, name: str) -> None:
        """It is no replica any more."""
        self._known.pop(name, None)

    def of(
        self,
        replica: Replica,
        view: ReplicaView,
        chunk_tokens: int | None,
        *,
        tiers_certain: bool,
    ) -> EngineRules:
        """A replica's rules.

        Args:
            view: the replica's own.
            chunk_tokens: of the tiers, where the replica has any.
        """
        info = view.info
        chunk_tokens = chunk_tokens if info.tiers else None
        kv_events = replica.address is not None
        tier = replica.tier.name
        facts = (info.page_tokens, chunk_tokens, info.cache_report, kv_events, tiers_certain, tier)
        known = self._known.get(replica.name)
        if known is None or known[0] != facts:
            rules = EngineRules(
                page_tokens=info.page_tokens,
                chunk_tokens=chunk_tokens,
                cache_report=info.cache_report,
                kv_events=kv_events,
                tiers_certain=tiers_certain,
                tier=tier,
            )
            known = self._known[replica.name] = facts, rules
        return known[1]
