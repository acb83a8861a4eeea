"""The plan of an engine that runs: its real pool and tiers, and how fast each of them is."""

from collections.abc import Mapping
from dataclasses import dataclass

from cache.break_even import BreakEven, TierVerdict
from cache.engine_loads import EngineLoads
from cache.kv_plan.plan import KvPlan
from cache.kv_plan.plan_json import SCHEMA_VERSION, to_json
from cache.kv_plan.plan_text import render_text
from cache.kv_plan.tiers import FULL_AT
from cache.prefill_speed import PrefillSpeed
from cache.tier_status import TierStatus

RAM = "ram"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTier:
    """One tier as its server tells; `tokens` before the first eviction, None without a bound."""

    name: str
    used_bytes: int
    capacity_bytes: int
    tokens: int | None
    enabled: bool
    found: BreakEven


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePlan:
    """A running engine's memory.

    Attributes:
        plan: None where the model's config.json can't be read from here; `problem` says why.
        measured_bytes_per_token: KV on one GPU by the engine's own figures; None where it doesn't
            tell.
    """

    model: str
    plan: KvPlan | None
    problem: str | None
    loads: EngineLoads | None
    page_tokens: int
    speed: PrefillSpeed | None
    tiers: tuple[LiveTier, ...]

    @property
    def measured_bytes_per_token(self) -> float | None:
        """The pool's bytes by its slots; SGLang rounds them to about 1 MiB."""
        loads = self.loads
        if loads is None or not loads.kv_pool_bytes or not loads.rank_pool_tokens:
            return None
        return loads.kv_pool_bytes / (loads.rank_pool_tokens + self.page_tokens)


def live_tiers(status: TierStatus | None, found: Mapping[str, BreakEven]) -> tuple[LiveTier, ...]:
    """The tiers of a tier server; none where it can't be reached."""
    if status is None:
        return ()
    unknown = BreakEven(verdict=TierVerdict.NOT_MEASURED)

    def tier(name: str, used: int, capacity: int, enabled: bool) -> LiveTier:
        return LiveTier(
            name=name,
            used_bytes=used,
            capacity_bytes=capacity,
            tokens=_tokens(status, capacity),
            enabled=enabled,
            found=found.get(name, unknown),
        )

    below = (
        tier(each.name, each.used_bytes, each.capacity_bytes, each.enabled)
        for each in status.adapters
    )
    ram = status.ram
    return (tier(RAM, ram.used_bytes, ram.capacity_bytes, True), *below)


def _tokens(status: TierStatus, capacity_bytes: int) -> int | None:
    """A chunk's bytes are of all ranks together."""
    if not status.chunk_bytes or not capacity_bytes:
        return None
    chunks = int(capacity_bytes * FULL_AT) // status.chunk_bytes
    return chunks * status.chunk_tokens


def live_json(live: LivePlan) -> dict[str, object]:
    """The live plan as JSON values; what isn't known is null."""
    loads, speed = live.loads, live.speed
    return {
        "schema_version": SCHEMA_VERSION,
        "model": live.model,
        "plan": to_json(live.plan) if live.plan else None,
        "plan_problem": live.problem,
        "engine": {
            "pool_tokens": loads.pool_tokens if loads else None,
            "used_tokens": loads.used_tokens if loads else None,
            "kv_pool_bytes": loads.kv_pool_bytes if loads else None,
            "weight_bytes": loads.weight_bytes if loads else None,
            "measured_kv_bytes_per_token": live.measured_bytes_per_token,
            "prefill_tokens_per_s": speed.tokens_per_s if speed else None,
            "prefill_measured_tokens": speed.tokens if speed else 0,
        },
        "tiers": [_tier_json(tier) for tier in live.tiers],
    }


def _tier_json(tier: LiveTier) -> dict[str, object]:
    found = tier.found
    return {
        "tier": tier.name,
        "enabled": tier.enabled,
        "used_bytes": tier.used_bytes,
        "capacity_bytes": tier.capacity_bytes or None,
        "tokens": tier.tokens,
        "verdict": found.verdict.value,
        "load_tokens_per_s": _finite(found.load_tokens_per_s),
        "latency_s": found.latency_s,
        "pays_from_tokens": found.pays_from_tokens,
        "typical_tokens": found.typical_tokens,
        "computing_to_loading": _finite(found.ratio),
        "loads": found.loads,
    }


def _finite(value: float | None) -> float | None:
    return None if value == float("inf") else value


def live_text(live: LivePlan) -> str:
    """The live plan for people."""
    head = render_text(live.plan) if live.plan else f"{live.model}: {live.problem}\n"
    return head + "\n".join([*_engine_lines(live), *map(_tier_line, live.tiers)]) + "\n"


def _engine_lines(live: LivePlan) -> list[str]:
    lines = ["now"]
    if live.loads is not None:
        used, pool = live.loads.used_tokens, live.loads.pool_tokens
        lines.append(f"  pool   {used:,} of {pool:,} tokens held by running requests")
    measured = live.measured_bytes_per_token
    if measured is not None:
        lines.append(f"  KV     {measured:,.0f} B a token by the engine's own figures")
    if live.speed is None:
        lines.append("  speed  not measured yet: too little was computed since the gateway started")
    else:
        lines.append(f"  speed  {live.speed.tokens_per_s:,.0f} prompt tokens/s computed")
    return lines


def _tier_line(tier: LiveTier) -> str:
    found = tier.found
    held = "no bound" if tier.tokens is None else f"{tier.tokens:,} tokens"
    line = f"  {tier.name:<5}  {held}; {found.verdict.value}"
    if found.load_tokens_per_s is not None and found.loaded_tokens:
        speed = found.load_tokens_per_s
        line += f": loads {speed:,.0f} tokens/s" if speed != float("inf") else ": loads at once"
        line += f" and {found.latency_s:.3f} s each" if found.latency_s else ""
    if found.pays_from_tokens:
        line += f", pays from {found.pays_from_tokens:,.0f} tokens"
    return line if tier.enabled else f"{line}; switched off"
