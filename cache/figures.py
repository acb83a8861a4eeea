"""What is counted of requests: the names of all sums, and what each adds up. Pure.

Every sum is of whole numbers, so that sums may be added in any order. A figure that is not known
adds nothing, and is missing from its `…_known`: unknown and zero stay apart in every sum.
"""

from dataclasses import dataclass

from cache.verdicts import Verdict

# name of the sum → the row's column
TOKENS = {
    "prompt": "prompt_tokens",
    "completion": "completion_tokens",
    "ideal": "ideal_tokens",
    "predicted": "predicted_tokens",
    "cached": "cached_tokens",
    "gpu": "cached_gpu",
    "ram": "cached_ram",
    "ssd": "cached_ssd",
    "redis": "cached_redis",
    "storage": "cached_storage",
    "new": "new_tokens",
}
VERDICTS = tuple(verdict.value for verdict in Verdict)
# The verdicts that cost tokens.
REASONS = tuple(name for name in VERDICTS if name not in ("hit", "cold"))
# Histograms of seconds: TTFT of requests that re-used something, nothing, and nobody knows; E2E.
TIMES = ("ttft_hits", "ttft_misses", "ttft_unknown", "e2e")


@dataclass(frozen=True, slots=True)
class Definition:
    """A sum over the rows in which all `known` columns are: of the column `of`, or of requests."""

    known: tuple[str, ...] = ()
    of: str | None = None


def _together(prefix: str, *names: str, beside: tuple[str, ...] = ()) -> dict[str, Definition]:
    """Requests, and sums of several figures, over the rows in which all of them are known."""
    known = (*(TOKENS[name] for name in names), *beside)
    return {f"{prefix}_requests": Definition(known)} | {
        f"{prefix}_{name}": Definition(known, TOKENS[name]) for name in names
    }


DEFINITIONS = {
    "requests": Definition(),
    **{f"{name}_tokens": Definition((column,), column) for name, column in TOKENS.items()},
    **{f"{name}_known": Definition((column,)) for name, column in TOKENS.items()},
    **_together("hit", "cached", "prompt"),
    **_together("accounted", "prompt", "ideal", "cached", "new", beside=("lost",)),
    **_together("foretold", "predicted", "cached"),
    "lost_requests": Definition(("lost",)),
}
# status → the figure that counts its requests
STATUSES = {"error": "errors", "aborted": "aborted"}
FIGURES = (
    *DEFINITIONS,
    *STATUSES.values(),
    # predicted tokens equal to the cached ones
    "foretold_exact",
    # requests of this verdict
    *(f"verdict_{name}" for name in VERDICTS),
    # tokens lost for this reason
    *(f"lost_{name}" for name in REASONS),
)
