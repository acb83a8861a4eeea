"""All figures of a run's lines, cold and warm apart. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from bench.metrics.goodput import Goodput, Targets, goodput
from bench.metrics.hits import HitRates, hit_rates
from bench.metrics.intervals import Distribution, distribution
from bench.run_folder import RequestLine

_NO_TARGETS = Targets()


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Per second, of answered requests; None: unknown for one of them, or there is no time.

    Attributes:
        unknown: answered requests whose tokens aren't known.
    """

    requests_per_s: float | None
    input_tokens_per_s: float | None
    output_tokens_per_s: float | None
    total_tokens_per_s: float | None
    unknown: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of the requests of one phase.

    Attributes:
        duration_s: from the first sent to the last ended; None: nothing was answered.
        errors: what went wrong → how often.
        queued: from when a request was due to when it was sent: the generator's lag, and waiting
            for a free slot.
    """

    phase: str
    requests: int
    failed: int
    errors: Mapping[str, int]
    duration_s: float | None
    throughput: Throughput
    ttft: Distribution
    itl: Distribution
    tpot: Distribution
    e2e: Distribution
    queued: Distribution
    hits: HitRates
    goodput: Goodput | None


def summarise_phases(
    lines: Sequence[RequestLine], *, targets: Targets = _NO_TARGETS, seed: int = 0
) -> list[Summary]:
    """A summary for each phase that there is, cold first."""
    made = []
    for phase in ("cold", "warm"):
        of_phase = [line for line in lines if line.phase == phase]
        if of_phase:
            made.append(summarise(of_phase, phase=phase, targets=targets, seed=seed))
    return made


def summarise(
    lines: Sequence[RequestLine],
    *,
    phase: str = "all",
    targets: Targets = _NO_TARGETS,
    seed: int = 0,
) -> Summary:
    """All figures of these lines. Times are those of answered requests; the others are counted."""
    good = [line for line in lines if line.ok]
    duration_s = _duration_s(lines)

    def times(value: Callable[[RequestLine], float | None]) -> Distribution:
        known = [[time_s] for line in good if (time_s := value(line)) is not None]
        return distribution(known, unknown=len(good) - len(known), seed=seed)

    gaps = [gaps for line in good if (gaps := gaps_s(line))]
    return Summary(
        phase=phase,
        requests=len(lines),
        failed=len(lines) - len(good),
        errors=dict(Counter(_error(line) for line in lines if not line.ok)),
        duration_s=duration_s,
        throughput=_throughput(good, duration_s),
        ttft=times(lambda line: line.ttft_s),
        # An answer of a single chunk has no gap: that is known, not unknown.
        itl=distribution(gaps, unknown=sum(not line.chunk_s for line in good), seed=seed),
        tpot=times(lambda line: line.tpot_s),
        e2e=times(lambda line: line.e2e_s),
        queued=times(_queued_s),
        hits=hit_rates(lines),
        goodput=goodput(lines, targets, duration_s=duration_s) if targets.stated else None,
    )


def gaps_s(line: RequestLine) -> list[float]:
    """Between each chunk of text and the next."""
    return [later - earlier for earlier, later in pairwise(line.chunk_s)]


def _duration_s(lines: Sequence[RequestLine]) -> float | None:
    sent = [line.sent_s for line in lines if line.sent_s is not None]
    ended = [line.done_s for line in lines if line.done_s is not None]
    return max(ended) - min(sent) if sent and ended else None


def _throughput(good: Sequence[RequestLine], duration_s: float | None) -> Throughput:
    inputs = [line.prompt_tokens for line in good]
    outputs = [line.output_tokens for line in good]
    unknown = sum(None in pair for pair in zip(inputs, outputs, strict=True))

    def rate(*counts: Sequence[int | None]) -> float | None:
        # A sum that leaves some out would be a rate that nobody saw.
        if not duration_s or any(None in each for each in counts):
            return None
        return sum(count or 0 for each in counts for count in each) / duration_s

    return Throughput(
        requests_per_s=len(good) / duration_s if duration_s else None,
        input_tokens_per_s=rate(inputs),
        output_tokens_per_s=rate(outputs),
        total_tokens_per_s=rate(inputs, outputs),
        unknown=unknown,
    )


def _queued_s(line: RequestLine) -> float | None:
    if line.scheduled_s is None or line.sent_s is None:
        return None
    return line.sent_s - line.scheduled_s


def _error(line: RequestLine) -> str:
    return line.error or f"HTTP {line.status}"
