"""Medians, predictions held against what came, and regret. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]

WITHIN = 0.25
LEAST_SHARE = 0.95
MOST_REGRET = 1.05
"""What is promised of predictions, of a tenant's corpus in the tiers, and of `auto`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScore:
    """One arm over all rounds. Medians, because a pause of the machine says nothing of an arm.

    Attributes:
        error: how far the median prediction is from the median measurement, as a share of the
            latter; negative: too little was predicted.
        loaded_tokens: from the tiers.
    """

    arm: str
    rounds: int
    prompt_tokens: float
    computed_tokens: float
    loaded_tokens: float
    ttft_s: float
    lowest_s: float
    highest_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        return self.predicted_s / self.ttft_s - 1

    @property
    def good(self) -> bool:
        return abs(self.error) <= WITHIN


def arm_scores(records: Iterable[Record]) -> list[ArmScore]:
    """By arm, in the order in which they first came; learning rounds are left out.

    Raises:
        ValueError: a record has no prediction.
    """
    arms: dict[str, list[Record]] = {}
    for record in records:
        if record["round"] < 0:
            continue
        if record["predicted_s"] is None:
            raise ValueError(f"nothing was predicted for {record['arm']}")
        arms.setdefault(record["arm"], []).append(record)
    return [_arm_score(arm, of) for arm, of in arms.items()]


def _arm_score(arm: str, of: Sequence[Record]) -> ArmScore:
    def median(name: str) -> float:
        return float(statistics.median(record[name] for record in of))

    seconds = [record["ttft_s"] for record in of]
    return ArmScore(
        arm=arm,
        rounds=len(of),
        prompt_tokens=median("prompt_tokens"),
        computed_tokens=median("computed_tokens"),
        loaded_tokens=median("loaded_tokens"),
        ttft_s=statistics.median(seconds),
        lowest_s=min(seconds),
        highest_s=max(seconds),
        predicted_s=median("predicted_s"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """The best fixed mode of each collection, had one known."""

    modes: Mapping[str, str]
    total_s: float


def best_in_hindsight(spent_s: Mapping[str, Mapping[str, float]]) -> Hindsight:
    """Of runs in which every collection was in one mode throughout.

    Args:
        spent_s: mode → collection → seconds; a collection that a mode can't answer is left out.
    """
    collections = {name for of in spent_s.values() for name in of}
    modes = {
        name: min((m for m in spent_s if name in spent_s[m]), key=lambda m: spent_s[m][name])
        for name in sorted(collections)
    }
    return Hindsight(modes=modes, total_s=sum(spent_s[m][name] for name, m in modes.items()))


def regret(totals_s: Mapping[str, float], *, of: str = "auto") -> float:
    """One way's seconds over those of the best other one.

    Raises:
        ValueError: there is no other.
    """
    others = [seconds for name, seconds in totals_s.items() if name != of]
    if not others:
        raise ValueError("there is nothing to hold it against")
    return totals_s[of] / min(others)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoScore:
    """Prefill seconds of each way of answering.

    Attributes:
        spent_s: way → collection → seconds for its questions.
        warmed_s: way → seconds for warmings.
        best: by the ways in which every collection was in one mode.
    """

    spent_s: Mapping[str, Mapping[str, float]]
    warmed_s: Mapping[str, float]
    best: Hindsight

    @property
    def totals_s(self) -> Mapping[str, float]:
        return {way: sum(of.values()) + self.warmed_s[way] for way, of in self.spent_s.items()}

    @property
    def regret(self) -> float:
        return regret(self.totals_s)

    @property
    def good(self) -> bool:
        return self.regret <= MOST_REGRET


def auto_score(measured: Mapping[str, Any]) -> AutoScore:
    """Of all ways of one list of events; `rag` and `cag` must be among them."""
    speed, ways = measured["tokens_per_s"], measured["ways"]
    spent = {name: computed_by_collection(way["records"], speed) for name, way in ways.items()}
    return AutoScore(
        spent_s=spent,
        warmed_s={name: way["warmed_tokens"] / speed for name, way in ways.items()},
        best=best_in_hindsight({name: spent[name] for name in ("rag", "cag")}),
    )


def computed_by_collection(records: Iterable[Record], tokens_per_s: float = 1) -> dict[str, float]:
    """Seconds (tokens, at a speed of 1) that were computed for each collection's questions."""
    computed: dict[str, float] = {}
    for record in records:
        name = record["collection"]
        computed[name] = computed.get(name, 0.0) + record["computed_tokens"] / tokens_per_s
    return computed


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantScore:
    """One tenant: its first visit against the later ones.

    Attributes:
        least_share: of the corpus that came from the tiers, at the visit where that was least.
        ram_tokens, ssd_tokens: in the median of the later visits.
    """

    tenant: int
    corpus_tokens: int
    pool_tokens: int
    least_share: float
    ram_tokens: float
    ssd_tokens: float
    computed_s: float
    loaded_s: float

    @property
    def good(self) -> bool:
        return self.least_share >= LEAST_SHARE


def tenant_scores(records: Iterable[Record]) -> list[TenantScore]:
    """By tenant; a tenant that was visited only once is left out."""
    tenants: dict[int, list[Record]] = {}
    for record in records:
        tenants.setdefault(record["tenant"], []).append(record)
    return [_tenant_score(tenant, of) for tenant, of in sorted(tenants.items()) if len(of) > 1]


def _tenant_score(tenant: int, of: Sequence[Record]) -> TenantScore:
    first, *later = sorted(of, key=lambda record: record["visit"])
    corpus = first["corpus_tokens"]
    return TenantScore(
        tenant=tenant,
        corpus_tokens=corpus,
        pool_tokens=first["pool_tokens"],
        least_share=min(min(record["loaded_tokens"], corpus) / corpus for record in later),
        ram_tokens=statistics.median(record["by_tier"]["ram"] or 0 for record in later),
        ssd_tokens=statistics.median(record["by_tier"]["ssd"] or 0 for record in later),
        computed_s=first["ttft_s"],
        loaded_s=statistics.median(record["ttft_s"] for record in later),
    )


def is_good(kind: str, measured: Any) -> bool:
    """Whether a result keeps what is promised."""
    match kind:
        case "ttft":
            return all(score.good for score in arm_scores(measured))
        case "tenants":
            return all(score.good for score in tenant_scores(measured))
        case _:
            return auto_score(measured).good
