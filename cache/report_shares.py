"""A group's prompt tokens in parts that add up to all of them. Pure.

Sums are over the requests for which each figure is known, which aren't the same for all: what one
of them doesn't tell is a part of its own, so that it is neither left out nor taken for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cache.report_values import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShares:
    """Where all prompt tokens of a group went.

    Attributes:
        gpu, ram, ssd, redis: re-used from there.
        tier: re-used from below the GPU's memory, not known from which tier.
        reused_somewhere: re-used, not known from where at all.
        lost: by verdict.
        unexplained: not re-used, where the ideal isn't known.
        unknown: of requests whose re-use nobody told.
    """

    gpu: int = 0
    ram: int = 0
    ssd: int = 0
    redis: int = 0
    tier: int = 0
    reused_somewhere: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    new: int = 0
    unexplained: int = 0
    unknown: int = 0

    @property
    def reused(self) -> int:
        return self.gpu + self.ram + self.ssd + self.redis + self.tier + self.reused_somewhere

    @property
    def total(self) -> int:
        """All prompt tokens."""
        lost = sum(self.lost.values())
        return self.reused + lost + self.new + self.unexplained + self.unknown


def prompt_shares(group: Group) -> PromptShares:
    """The parts of a group's prompt tokens; their sum is all that are known."""
    hit, tiers, fall = group.summary.hit, group.summary.by_tier, group.waterfall
    left = max(group.summary.prompt.tokens, hit.prompt_tokens)

    def taken(tokens: int, most: int) -> int:
        nonlocal left
        part = max(0, min(tokens, most, left))
        left -= part
        return part

    cached = min(hit.cached_tokens, left)
    after_reuse = left - cached
    found = [
        taken(sum_.tokens, left - after_reuse)
        for sum_ in (tiers.gpu, tiers.ram, tiers.ssd, tiers.redis)
    ]
    split = tiers.ram.tokens + tiers.ssd.tokens + tiers.redis.tokens
    tier = taken(tiers.storage.tokens - split, left - after_reuse)
    somewhere = taken(cached, left - after_reuse)
    lost = {name: taken(tokens, left) for name, tokens in (fall.lost if fall else {}).items()}
    new = taken(fall.new_tokens if fall else 0, left)
    told = cached + sum(lost.values()) + new
    unexplained = taken(hit.prompt_tokens - told, left)
    gpu, ram, ssd, redis = found
    return PromptShares(
        gpu=gpu,
        ram=ram,
        ssd=ssd,
        redis=redis,
        tier=tier,
        reused_somewhere=somewhere,
        lost=lost,
        new=new,
        unexplained=unexplained,
        unknown=left,
    )
