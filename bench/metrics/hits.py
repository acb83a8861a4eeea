"""What was re-used, from where, and what could have been. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from bench.run_folder import RequestLine


class HitRates(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens over tokens, each over the requests for which both are known.

    Attributes:
        rate: re-used over prompt; None: known of no request.
        unknown: answered requests that don't tell what was re-used.
        by_tier: of the prompt tokens of requests that tell their tiers.
        tier_unknown: requests that re-used something and don't tell from where.
        ideal: what a cache without bounds would have re-used, by the gateway's own account.
    """

    rate: float | None
    unknown: int
    prompt_tokens: int | None
    cached_tokens: int | None
    by_tier: Mapping[str, float]
    tier_unknown: int
    ideal: float | None
    ideal_unknown: int


def hit_rates(lines: Sequence[RequestLine]) -> HitRates:
    """Of the requests that were answered."""
    good = [line for line in lines if line.ok]
    known = [
        (line.cached_tokens, line.prompt_tokens)
        for line in good
        if line.cached_tokens is not None and line.prompt_tokens is not None
    ]
    ideal = [
        (line.ideal_tokens, line.prompt_tokens)
        for line in good
        if line.ideal_tokens is not None and line.prompt_tokens is not None
    ]
    return HitRates(
        rate=_rate(known),
        unknown=len(good) - len(known),
        prompt_tokens=sum(prompt for _, prompt in known) if known else None,
        cached_tokens=sum(cached for cached, _ in known) if known else None,
        by_tier=_by_tier(good),
        tier_unknown=sum(bool(line.cached_tokens) and not _tells_tiers(line) for line in good),
        ideal=_rate(ideal),
        ideal_unknown=len(good) - len(ideal),
    )


def _tells_tiers(line: RequestLine) -> bool:
    return line.by_tier is not None and any(told is not None for told in line.by_tier.values())


def _by_tier(lines: Sequence[RequestLine]) -> dict[str, float]:
    """A request that re-used nothing has nothing from any tier, told or not."""
    told = [
        line
        for line in lines
        if line.prompt_tokens is not None and (_tells_tiers(line) or line.cached_tokens == 0)
    ]
    names = sorted(
        {
            name
            for line in told
            for name, tokens in (line.by_tier or {}).items()
            if tokens is not None
        }
    )
    total = sum(line.prompt_tokens or 0 for line in told)
    if not total:
        return {}
    return {
        name: sum((line.by_tier or {}).get(name) or 0 for line in told) / total for name in names
    }


def _rate(pairs: Sequence[tuple[int, int]]) -> float | None:
    total = sum(whole for _, whole in pairs)
    return sum(part for part, _ in pairs) / total if total else None
