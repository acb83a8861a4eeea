"""The quality gate: may a mode answer, by what it answered to the collection's own questions? Pure.

A mode passes against another where, over the same questions, the lower end of a one-sided 95 %
interval of its mean score less the other's isn't below `-margin`: a paired bootstrap of
non-inferiority, with a fixed seed, so that equal scores give equal verdicts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from app.schemas import Mode

_RESAMPLES = 2000
_MOST_RESAMPLED = 500
_CONFIDENCE = 0.95
_NORMAL = NormalDist().inv_cdf(_CONFIDENCE)
_SEED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityScores:
    """What an evaluation found.

    Attributes:
        metric: exact_match, token_f1 or judge.
        revision: of the collection when it was asked.
        model: the served model's name.
        scores: for each mode one score a question, in one order, 0 to 1.
    """

    metric: str
    revision: int
    model: str
    scores: Mapping[Mode, tuple[float, ...]] = field(default_factory=dict)

    @property
    def questions(self) -> int:
        """How many questions every mode answered."""
        return min(map(len, self.scores.values()), default=0)

    def mean(self, mode: Mode) -> float | None:
        """The mean score; None where the mode wasn't asked."""
        scores = self.scores.get(mode)
        return sum(scores) / len(scores) if scores else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """How strict the gate is: the loss of mean score that is taken, and how many questions it
    takes to show that it isn't more."""

    margin: float = 0.05
    least_questions: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """Whether a mode may be switched to, and the sentence about it.

    Attributes:
        stale: the documents or the model changed since the questions were asked.
        difference, lower: mean score less the other's, and the lower end of its interval.
    """

    passes: bool
    note: str
    stale: bool = False
    difference: float | None = None
    lower: float | None = None


_NO_QUESTIONS = "no question set: decided by cost only"


def judge_switch(
    scores: QualityScores | None,
    *,
    there: Mode,
    here: Mode,
    revision: int,
    model: str,
    rules: GateRules,
) -> GateVerdict:
    """Whether quality lets a collection go from one mode to another."""
    if scores is None:
        return GateVerdict(passes=True, note=_NO_QUESTIONS)
    stale = scores.revision != revision or scores.model != model
    suffix = f"; {_why_stale(scores, revision, model)}" if stale else ""
    if scores.questions < rules.least_questions:
        note = (
            f"{scores.questions} questions were asked, and the quality gate needs "
            f"{rules.least_questions}"
        )
        return GateVerdict(passes=False, note=note + suffix, stale=stale)
    ours, theirs = scores.scores.get(there), scores.scores.get(here)
    if ours is None or theirs is None:
        missing = there if ours is None else here
        note = f"{missing.value} was not evaluated with the collection's questions"
        return GateVerdict(passes=False, note=note + suffix, stale=stale)
    difference, lower = paired_bootstrap(ours, theirs)
    passes = lower >= -rules.margin
    note = (
        f"{scores.metric} of {there.value} is {difference:+.3f} against {here.value} over "
        f"{len(ours)} questions (at least {lower:+.3f} with 95 % confidence; "
        f"{-rules.margin:+.3f} is allowed)"
    )
    return GateVerdict(
        passes=passes, note=note + suffix, stale=stale, difference=difference, lower=lower
    )


def paired_bootstrap(ours: tuple[float, ...], theirs: tuple[float, ...]) -> tuple[float, float]:
    """The mean difference a question, and the lower end of its one-sided 95 % interval.

    Raises:
        ValueError: not the same questions, or none.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError("both modes must have answered the same questions, at least one")
    differences = np.array(ours) - np.array(theirs)
    mean = float(differences.mean())
    if len(differences) > _MOST_RESAMPLED:
        # The mean of so many is normal, and drawing them would take memory and the event loop.
        return mean, mean - _NORMAL * float(differences.std()) / math.sqrt(len(differences))
    picks = np.random.default_rng(_SEED).integers(
        0, len(differences), size=(_RESAMPLES, len(differences))
    )
    means = differences[picks].mean(axis=1)
    return mean, float(np.quantile(means, 1 - _CONFIDENCE))


def _why_stale(scores: QualityScores, revision: int, model: str) -> str:
    if scores.model != model:
        return f"the questions were answered by {scores.model}, and {model} serves now"
    return (
        f"the documents changed since the questions were asked (revision {scores.revision}, now "
        f"{revision}): run `foreword plan --evaluate` again"
    )
