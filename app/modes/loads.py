"""What loads from the tiers add to the time to the first token. Pure.

The tier server counts what its own part of a load takes. The engine has another: it waits for the
load between two looks, and copies the KV into its pool. So requests tell by which factor the whole
is longer, for RAM and for what lies below it apart.
"""

from dataclasses import dataclass, field, replace

from app.modes.rates import Recent
from cache.load_cost import LoadCost

# One odd load mustn't make the tiers look free, or lost.
_LEAST_FACTOR, _MOST_FACTOR = 0.25, 8.0
_MEMORY = 8
# A load that came nearly all from one place tells of that place.
_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCosts:
    """Measured costs of loads; None where a place wasn't measured or isn't there.

    Attributes:
        below: of SSD and others below RAM, the way through RAM included.
        ram_tokens: tokens of KV that RAM holds now; None where nobody tells.
    """

    ram: LoadCost | None = None
    below: LoadCost | None = None
    ram_tokens: float | None = None


@dataclass(slots=True, kw_only=True)
class LoadLearner:
    """By which factor loads take longer than the tier server's part of them."""

    ram: Recent = field(default_factory=lambda: Recent(memory=_MEMORY))
    below: Recent = field(default_factory=lambda: Recent(memory=_MEMORY))

    def learn(
        self, seconds: float, *, ram_tokens: int, below_tokens: int, measured: TierCosts
    ) -> None:
        """A request waited so long for loads; negative where the time was less than expected."""
        total = ram_tokens + below_tokens
        for tokens, cost, factors in (
            (ram_tokens, measured.ram, self.ram),
            (below_tokens, measured.below, self.below),
        ):
            if total and cost is not None and tokens >= _NEARLY_ALL * total:
                expected = cost.seconds(total)
                if expected > 0:
                    factors.add(min(max(seconds / expected, _LEAST_FACTOR), _MOST_FACTOR))

    def cost(self, measured: TierCosts, *, tokens: float, newer_tokens: float) -> LoadCost | None:
        """A load of `tokens`, where so many others came into RAM since they were used last.

        RAM is taken to keep what was used last; what is older lies below it. None where neither
        place was measured.
        """
        ram = _times(measured.ram, self.ram)
        below = _times(measured.below, self.below)
        if ram is None or below is None:
            return ram or below
        held = measured.ram_tokens
        left = tokens if held is None else max(0.0, held - newer_tokens)
        share = min(1.0, left / tokens) if tokens > 0 else 1.0
        return replace(
            ram,
            latency_s=ram.latency_s if share >= 1 else below.latency_s,
            s_per_token=share * ram.s_per_token + (1 - share) * below.s_per_token,
        )


def _times(cost: LoadCost | None, factors: Recent) -> LoadCost | None:
    if cost is None:
        return None
    factor = factors.value(1.0)
    return replace(cost, latency_s=cost.latency_s * factor, s_per_token=cost.s_per_token * factor)
