"""Several rankings into one, by how much of the most that it could give each gave.

A cosine is at most 1. A BM25 score is at most what a chunk with all words of the question would
have, so that its share says how much of what was asked for is there, by words: nearly all of it for
an identifier, little for a question in other words than the answer's. Ranks alone don't say that: a
chunk that is first for two common words counts as much as one that is first for all.

Measured on real questions in `docs/search.md`. Source of the comparison: Bruch, Gai, Ingber, "An
Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 42 (2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.index_views import Hits


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionSettings:
    """How rankings are fused.

    Attributes:
        vector_weight, lexical_weight: how much each ranking says. Of a model whose cosines lie
            close together, the vectors need more weight to be heard.
    """

    vector_weight: float = 1.0
    lexical_weight: float = 1.0

    def __post_init__(self) -> None:
        if min(self.vector_weight, self.lexical_weight) < 0:
            raise ValueError("weights must be 0 or more")
        if self.vector_weight + self.lexical_weight == 0:
            raise ValueError("one of the weights must be more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What one search found.

    Attributes:
        most: the score that no chunk can exceed; 0 where the search had nothing to look for.
    """

    hits: Hits
    weight: float
    most: float


def fuse(rankings: Sequence[Ranking]) -> list[tuple[int, float]]:
    """(place, fused score) of all that was found, best first; equal scores in canonical order.

    Returns:
        Scores from 0 to 1, 1 for the most in every ranking. What a ranking didn't find has 0 in it.
    """
    asked = [ranking for ranking in rankings if ranking.most > 0 and ranking.weight > 0]
    whole = sum(ranking.weight for ranking in asked)
    scores: dict[int, float] = {}
    for ranking in asked:
        share = ranking.weight / whole / ranking.most
        places, found = ranking.hits.places.tolist(), ranking.hits.scores.tolist()
        for place, score in zip(places, found, strict=True):
            scores[place] = scores.get(place, 0.0) + share * max(score, 0.0)
    return sorted(scores.items(), key=lambda found: (-found[1], found[0]))
