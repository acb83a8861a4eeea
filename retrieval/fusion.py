"""Reciprocal rank fusion: several rankings into one, by ranks alone.

Cosines and BM25 scores have no common scale, and a scale learnt on one collection fails on the
next; ranks need none. Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms
Condorcet and individual rank learning methods", SIGIR 2009.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.index_views import Hits


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionSettings:
    """How rankings are fused.

    Attributes:
        rank_constant: c in weight / (c + rank): the larger, the less the very first ranks stand
            out. 60 is the paper's, and was best there within 1 % from 20 to 100.
        vector_weight, lexical_weight: how much each ranking says.
    """

    rank_constant: float = 60.0
    vector_weight: float = 1.0
    lexical_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.rank_constant < 0 or min(self.vector_weight, self.lexical_weight) < 0:
            raise ValueError("rank_constant and weights must be 0 or more")
        if self.vector_weight + self.lexical_weight == 0:
            raise ValueError("one of the weights must be more than 0")


def fuse(
    rankings: Sequence[tuple[Hits, float]], *, rank_constant: float
) -> list[tuple[int, float]]:
    """(place, fused score) of all that was found, best first; equal scores in canonical order.

    Args:
        rankings: each with its weight.

    Returns:
        Scores from 0 to 1; 1 is first in every ranking.
    """
    most = sum(weight for _, weight in rankings) / (rank_constant + 1)
    if most == 0:
        return []
    scores: dict[int, float] = {}
    for hits, weight in rankings:
        for rank, place in enumerate(hits.places.tolist(), start=1):
            scores[place] = scores.get(place, 0.0) + weight / (rank_constant + rank) / most
    return sorted(scores.items(), key=lambda found: (-found[1], found[0]))
