"""The time to the first token, as a function of what is computed over what is cached. Pure.

    seconds = fixed + per_token * n + per_pair * n * (cached + n / 2) + per_cached * cached

n tokens are computed; each attends to all before it, which is the quadratic part. `fixed` is what
every request waits for (being rendered, sent, scheduled), `per_cached` what long prompts cost even
where all of it is cached (ids over HTTP, the engine's tree, reading KV in the first decoding step).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

# Without any measurement: what a small GPU does. Believed until two requests were seen.
_FIRST_GUESS = (0.03, 1 / 3000, 1 / 3000 / 4000, 1e-6)
# How much the prior weighs against one measured request.
_PRIOR_WEIGHT = 0.02
_SAMPLES_A_BUCKET = 8
# It is fitted anew when so large a part of the requests that it rests on came since.
_REFIT_PART = 8
# Beyond this relative error a request was disturbed (queued, a pause of the machine): its pull
# on the fit stays that of one at this error.
_HUBER = 0.1
_ROUNDS = 8
_SHORTEST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftModel:
    """Seconds to the first token on an idle engine. All coefficients are 0 or more."""

    fixed_s: float = _FIRST_GUESS[0]
    per_token_s: float = _FIRST_GUESS[1]
    per_pair_s: float = _FIRST_GUESS[2]
    per_cached_s: float = _FIRST_GUESS[3]

    def seconds(self, computed: float, cached: float) -> float:
        """The whole time, the fixed part included."""
        return self.fixed_s + self.per_cached_s * cached + self.compute_s(computed, cached)

    def compute_s(self, computed: float, cached: float) -> float:
        """Only the computing of `computed` tokens behind `cached` ones."""
        pairs = computed * (cached + computed / 2)
        return self.per_token_s * computed + self.per_pair_s * pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request that was seen: tokens computed, tokens cached, seconds to its first token
    without retrieval and loads; `others` is how many requests ran beside it."""

    computed: int
    cached: int
    seconds: float
    others: int = 0


class TtftLearner:
    """Fits the model to the requests of one engine.

    The last few requests of each size are kept, so that a stream of short ones doesn't make the
    long ones forgotten. Not thread-safe.
    """

    def __init__(self, prior: TtftModel | None = None) -> None:
        self._prior = prior or TtftModel()
        self._buckets: dict[tuple[int, int], deque[Sample]] = {}
        self._fitted: TtftModel | None = None
        self._fitted_on = 0
        self._learned = 0

    @property
    def samples(self) -> int:
        """How many requests the fit rests on."""
        return sum(map(len, self._buckets.values()))

    @property
    def model(self) -> TtftModel:
        """The model by all that was learned; fitted when it is asked for and enough is new."""
        if self._fitted is None or self._learned >= max(1, self._fitted_on // _REFIT_PART):
            kept = [sample for bucket in self._buckets.values() for sample in bucket]
            self._fitted, self._fitted_on, self._learned = fit(kept, self._prior), len(kept), 0
        return self._fitted

    def expect_speed(self, tokens_per_s: float, *, attention_ratio: float | None = None) -> None:
        """Take a measured prefill speed as what to believe where no request tells better.

        `attention_ratio` is the work of attending to one token, as a share of a token's own.
        """
        per_token_s = 1 / tokens_per_s
        ratio = attention_ratio if attention_ratio is not None else 1 / 4000
        prior = TtftModel(per_token_s=per_token_s, per_pair_s=per_token_s * ratio)
        if prior != self._prior:
            self._prior, self._fitted = prior, None

    def learn(self, sample: Sample) -> None:
        """A request has come back."""
        if sample.seconds <= 0 or sample.computed < 1 or sample.cached < 0:
            return
        key = (sample.computed.bit_length(), sample.cached.bit_length())
        self._buckets.setdefault(key, deque(maxlen=_SAMPLES_A_BUCKET)).append(sample)
        self._learned += 1

    def forget(self) -> None:
        """The engine was started anew, perhaps with another model."""
        self._buckets.clear()
        self._fitted = None


def fit(samples: Iterable[Sample], prior: TtftModel) -> TtftModel:
    """The model with the least errors of the logarithm, none counted beyond Huber's bound.

    Where the samples can't tell coefficients apart, the prior does.
    """
    kept = list(samples)
    start = np.array([prior.fixed_s, prior.per_token_s, prior.per_pair_s, prior.per_cached_s])
    if not kept:
        return prior
    seconds = np.array([sample.seconds for sample in kept])
    features = np.array([_features(sample) for sample in kept])
    alone = np.array([1 / (1 + sample.others) for sample in kept])
    scale = np.maximum(start, np.array(_FIRST_GUESS) * 1e-3)
    weights, about = alone, seconds
    found, goals = start, np.ones(len(kept))
    for _ in range(_ROUNDS):
        found = _solve(features / about[:, None], goals, weights, start, scale)
        # From here on relative to what is expected, not to what came: among requests of one size
        # the quickest would weigh most, and all would be expected too soon.
        about = np.maximum(features @ found, _SHORTEST_S)
        errors = np.log(seconds / about)
        goals = 1 + errors
        weights = alone * np.minimum(1.0, _HUBER / np.maximum(np.abs(errors), 1e-12))
    fixed, token, pair, cached = (float(value) for value in found)
    return TtftModel(fixed_s=fixed, per_token_s=token, per_pair_s=pair, per_cached_s=cached)


def _features(sample: Sample) -> tuple[float, float, float, float]:
    pairs = sample.computed * (sample.cached + sample.computed / 2)
    return 1.0, float(sample.computed), pairs, float(sample.cached)


def _solve(rows: Vector, goals: Vector, weights: Vector, prior: Vector, scale: Vector) -> Vector:
    """Least squares with the prior beside the samples, no coefficient below 0.

    Four unknowns: those that come out negative are set to 0, the rest solved again.
    """
    scaled = rows * scale
    gram = scaled.T @ (scaled * weights[:, None]) + _PRIOR_WEIGHT * np.eye(len(prior))
    goal = scaled.T @ (weights * goals) + _PRIOR_WEIGHT * prior / scale
    free = np.ones(len(prior), dtype=bool)
    answer = np.zeros(len(prior))
    while free.any():
        answer[:] = 0
        answer[free] = np.linalg.solve(gram[np.ix_(free, free)], goal[free])
        if (answer >= 0).all():
            break
        free &= answer >= 0
    found: Vector = np.maximum(answer, 0) * scale
    return found
