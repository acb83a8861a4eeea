"""What two arms are compared in. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.compare.paired import Scale
from bench.metrics import Summary
from bench.run_folder import RequestLine

Unit = Literal["s", "tokens", "per s", "share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMeasure:
    """Something that each request has.

    Attributes:
        words: for the better and for the worse: what B is when its value is lower, and higher.
    """

    name: str
    unit: Unit
    value: Callable[[RequestLine], float | None]
    words: tuple[str, str]
    scale: Scale = "ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeasure:
    """Something that only a whole run has."""

    name: str
    unit: Unit
    value: Callable[[Summary], float | None]
    words: tuple[str, str]


def _ttft(line: RequestLine) -> float | None:
    return line.ttft_s


def _e2e(line: RequestLine) -> float | None:
    return line.e2e_s


def _tpot(line: RequestLine) -> float | None:
    return line.tpot_s


def _cached(line: RequestLine) -> float | None:
    return line.cached_tokens


REQUEST_MEASURES = (
    RequestMeasure(name="TTFT", unit="s", value=_ttft, words=("faster", "slower")),
    RequestMeasure(name="E2E", unit="s", value=_e2e, words=("faster", "slower")),
    RequestMeasure(name="TPOT", unit="s", value=_tpot, words=("faster", "slower")),
    RequestMeasure(
        name="re-used tokens",
        unit="tokens",
        value=_cached,
        words=("less re-use", "more re-use"),
        scale="difference",
    ),
)


def _errors(summary: Summary) -> float:
    return summary.failed / summary.requests


RUN_MEASURES = (
    RunMeasure(
        name="requests",
        unit="per s",
        value=lambda summary: summary.throughput.requests_per_s,
        words=("less throughput", "more throughput"),
    ),
    RunMeasure(
        name="output tokens",
        unit="per s",
        value=lambda summary: summary.throughput.output_tokens_per_s,
        words=("less throughput", "more throughput"),
    ),
    RunMeasure(
        name="all tokens",
        unit="per s",
        value=lambda summary: summary.throughput.total_tokens_per_s,
        words=("less throughput", "more throughput"),
    ),
    RunMeasure(
        name="hit rate",
        unit="share",
        value=lambda summary: summary.hits.rate,
        words=("lower", "higher"),
    ),
    RunMeasure(name="errors", unit="share", value=_errors, words=("fewer errors", "more errors")),
)
