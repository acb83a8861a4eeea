"""Medians, predictions held against what came, and regret. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScore:
    """One arm over all rounds. Medians, because a pause of the machine says nothing of an arm.

    Attributes:
        error: how far the median prediction is from the median measurement, as a share of the
            latter; negative: too little was predicted.
        loaded: tokens from the tiers in the median.
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


def arm_scores(records: Iterable[Record]) -> list[ArmScore]:
    """By arm, in the order in which they first came.

    Raises:
        ValueError: a record has no prediction.
    """
    arms: dict[str, list[Record]] = {}
    for record in records:
        if record["predicted_s"] is None:
            raise ValueError(f"nothing was predicted for {record['arm']}")
        arms.setdefault(record["arm"], []).append(record)
    return [_arm_score(arm, of) for arm, of in arms.items()]


def _arm_score(arm: str, of: Sequence[Record]) -> ArmScore:
    def median(name: str) -> float:
        return statistics.median(record[name] for record in of)

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


def by_collection(records: Iterable[Record]) -> dict[str, float]:
    """Prefill seconds of each collection's questions."""
    spent: dict[str, float] = {}
    for record in records:
        spent[record["collection"]] = spent.get(record["collection"], 0.0) + record["prefill_s"]
    return spent
