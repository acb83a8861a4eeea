"""Whether a run says anything, and if not, why. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.run_folder import RequestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Beyond these a run doesn't count.

    Attributes:
        max_lag_s: of the 99th percentile of the generator's own lag.
        max_errors: share of the requests that may fail.
    """

    max_lag_s: float = 0.01
    max_errors: float = 0.01


def lag_p99_s(lags_s: Sequence[float]) -> float | None:
    """The 99th percentile, by the nearest rank; None: there is nothing to tell."""
    if not lags_s:
        return None
    return sorted(lags_s)[min(len(lags_s) - 1, int(len(lags_s) * 0.99))]


def faults(
    lines: Sequence[RequestLine], *, planned: int, lag_s: float | None, bounds: Bounds
) -> Iterator[str]:
    """Each reason for which the run doesn't count.

    Args:
        planned: requests that there should be, in all passes.
    """
    if len(lines) < planned:
        yield f"interrupted: {len(lines)} of {planned} requests were ended"
    if lag_s is not None and lag_s > bounds.max_lag_s:
        yield (
            f"the generator lagged: p99 {lag_s * 1000:.1f} ms, "
            f"{bounds.max_lag_s * 1000:g} ms are allowed"
        )
    failed = sum(not line.ok for line in lines)
    if lines and failed > bounds.max_errors * len(lines):
        yield (
            f"{failed} of {len(lines)} requests failed, "
            f"{100 * bounds.max_errors:g} % are allowed (first: {_first_error(lines)})"
        )


def _first_error(lines: Sequence[RequestLine]) -> str:
    return next((line.error or f"HTTP {line.status}" for line in lines if not line.ok), "unknown")
