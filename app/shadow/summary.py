"""Both sides of the mirrored requests, compared in pairs. Pure.

Intervals are of 95 %, by bootstrap over conversations, since the turns of one aren't independent;
seeded, so that the same rows give the same figures.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.shadow.rows import ShadowRow, Side

JSONObject = dict[str, Any]
_Floats = NDArray[np.float64]
_Figure = Callable[[_Floats], _Floats]

_SEED = 2026
_RESAMPLES = 400
_ENDS = (0.025, 0.975)


def summarise(rows: Sequence[ShadowRow]) -> JSONObject:
    """Figures of all rows; what nothing tells is null."""
    answered = [row for row in rows if row.error is None]
    return {
        "requests": len(rows),
        "compared": len(answered),
        "conversations": len({row.conversation for row in answered}),
        "first_at": rows[0].at.isoformat() if rows else None,
        "last_at": rows[-1].at.isoformat() if rows else None,
        "errors": dict(sorted(Counter(row.error for row in rows if row.error).items())),
        "ttft": _times(answered, "ttft_s"),
        "e2e": _times(answered, "e2e_s"),
        "hit_rate": _hit_rate([row for row in answered if row.tells_reuse]),
        "answers": _answers(answered),
    }


def _times(rows: Sequence[ShadowRow], name: str) -> JSONObject | None:
    """The ratio is the geometric mean of the pairs': below 1, the target was faster."""
    pairs = [
        (row.conversation, live, shadow)
        for row in rows
        if (live := _seconds(row.live, name)) and (shadow := _seconds(row.shadow, name))
    ]
    if not pairs:
        return None
    logs = [math.log(shadow / live) for _, live, shadow in pairs]
    sums = _by_conversation([key for key, _, _ in pairs], np.array([logs, np.ones(len(logs))]))

    def ratio(drawn: _Floats) -> _Floats:
        made: _Floats = np.exp(drawn[0] / drawn[1])
        return made

    return {
        "pairs": len(pairs),
        "live_p50_s": float(np.median([live for _, live, _ in pairs])),
        "shadow_p50_s": float(np.median([shadow for _, _, shadow in pairs])),
        "ratio": float(ratio(sums.sum(axis=1))),
        "ratio_interval": _interval(sums, ratio),
    }


def _hit_rate(rows: Sequence[ShadowRow]) -> JSONObject | None:
    """Re-used prompt tokens of all, of pairs that both sides could know as well."""
    if not rows:
        return None
    tokens = np.array(
        [
            [row.live.cached_tokens for row in rows],
            [row.live.prompt_tokens for row in rows],
            [row.shadow.cached_tokens for row in rows],
            [row.shadow.prompt_tokens for row in rows],
        ],
        dtype=np.float64,
    )
    sums = _by_conversation([row.conversation for row in rows], tokens)
    total = sums.sum(axis=1)

    def difference(drawn: _Floats) -> _Floats:
        made: _Floats = drawn[2] / drawn[3] - drawn[0] / drawn[1]
        return made

    return {
        "pairs": len(rows),
        "live": float(total[0] / total[1]),
        "shadow": float(total[2] / total[3]),
        "difference": float(difference(total)),
        "difference_interval": _interval(sums, difference),
    }


def _answers(rows: Sequence[ShadowRow]) -> JSONObject | None:
    """Of greedy requests alone."""
    pairs = [row for row in rows if row.equal is not None]
    if not pairs:
        return None
    equal = sum(bool(row.equal) for row in pairs)
    return {
        "pairs": len(pairs),
        "equal": equal,
        "equal_share": equal / len(pairs),
        "common_share": float(np.mean([row.common or 0.0 for row in pairs])),
    }


def _seconds(side: Side, name: str) -> float | None:
    value: float | None = getattr(side, name)
    return value


def _by_conversation(keys: Sequence[str], values: _Floats) -> _Floats:
    """Sums by conversation. Shape: (figures, rows) to (figures, conversations)."""
    _, places = np.unique(np.array(keys), return_inverse=True)
    count = int(places.max()) + 1
    return np.array([np.bincount(places, weights=each, minlength=count) for each in values])


def _interval(sums: _Floats, figure: _Figure) -> list[float] | None:
    """None where there is one conversation alone."""
    conversations = sums.shape[1]
    if conversations < 2:
        return None
    draws = np.random.default_rng(_SEED)
    figures = [float(figure(sums @ _times_drawn(draws, conversations))) for _ in range(_RESAMPLES)]
    low, high = np.quantile(figures, _ENDS)
    return [float(low), float(high)]


def _times_drawn(draws: np.random.Generator, conversations: int) -> NDArray[np.intp]:
    """How often each is in one resample."""
    picks = draws.integers(0, conversations, size=conversations)
    return np.bincount(picks, minlength=conversations)
