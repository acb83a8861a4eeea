"""What a prefix index answers: how much of a prompt is where, in whole pages from its start."""

from collections.abc import Mapping

import msgspec


class ReplicaMatch(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """One replica's part of a prompt, as lengths of prefixes in pages.

    Attributes:
        left: what requests of this salt had left there by the time asked for. It may be gone.
        racing: `left`, and what requests under way there will leave; >= `left`.
        resident: what is in its GPU cache now. None where that isn't known: no KV event ever came
            from it, or events were lost since a page among those that were left was last seen.
        resident_at_least: what surely is in its GPU cache now; equals `resident` where that is
            known. Of a replica without KV events, what requests had there since it was started: it
            may be gone.
        last_cleared_at: when its cache was last dropped as a whole, by a flush or a restart.
        evidence_lost_at: when events were last lost.
        removed: the first page that isn't resident was removed by itself, not with the whole cache.
        last_removed_at: when pages of this salt were last removed there.
    """

    left: int = 0
    racing: int = 0
    resident: int | None = None
    resident_at_least: int = 0
    last_cleared_at: float | None = None
    evidence_lost_at: float | None = None
    removed: bool = False
    last_removed_at: float | None = None

    @property
    def resident_known(self) -> bool:
        return self.resident is not None


class Match(msgspec.Struct, kw_only=True, frozen=True):
    """How much of a prompt is where, as lengths of prefixes in pages.

    Attributes:
        left: what requests of this salt had left on any replica by the time asked for.
        racing: `left`, and what requests of this salt under way will leave; >= `left`.
        replicas: every replica that the index has heard of, by name.
        tiered: what was given to the shared tiers under this salt. It may be gone.
        own_tiers: the same of each replica's own tiers, by the replica's name.
        other_salts: the longest that any other salt had left; may be less than `left`.
    """

    left: int = 0
    racing: int = 0
    replicas: Mapping[str, ReplicaMatch] = msgspec.field(default_factory=dict)
    tiered: int = 0
    other_salts: int = 0
    own_tiers: Mapping[str, int] = msgspec.field(default_factory=dict)

    def given(self, tier: str) -> int:
        """What was given to a replica's own tiers, or to the shared ones, whose name is empty."""
        return self.own_tiers.get(tier, 0) if tier else self.tiered
