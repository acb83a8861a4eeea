"""The comparison of two arms: a figure and a verdict for each measure. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import log
from statistics import fmean
from typing import Any

from bench.compare.arms import Arm, of_phase, values_by_id
from bench.compare.comparable import check_comparable
from bench.compare.measures import REQUEST_MEASURES, RUN_MEASURES, RequestMeasure, RunMeasure, Unit
from bench.compare.paired import Interval, Paired, Scale, compare_paired, interval_of_rounds
from bench.metrics import Summary, summarise

NO_DIFFERENCE = "no difference shown"
# Flags that differ with each start and mean nothing.
_PLACES = ("port", "path", "endpoint", "addr", "seed", "time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What may be said of a difference, and why no more than that.

    Attributes:
        word: what B is, such as `faster`; or `no difference shown`.
        why: what stands against it; empty where a difference is shown.
        once: there was one round only, so that how much rounds differ isn't known.
    """

    word: str
    why: str = ""
    once: bool = False

    @property
    def shown(self) -> bool:
        return self.word != NO_DIFFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRequests:
    """One measure, request by request."""

    name: str
    unit: Unit
    paired: Paired | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """One measure, run by run; effects as those of `Paired`, None where no run tells them."""

    name: str
    unit: Unit
    a: tuple[float | None, ...]
    b: tuple[float | None, ...]
    scale: Scale
    effect: float | None
    over_rounds: Interval | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """B against A.

    Attributes:
        simulated: times are worth nothing then; None: not known.
        also: in what else the arms' machines and engines differ.
    """

    a: str
    b: str
    rounds: tuple[int, int]
    requests: int
    phase: str
    simulated: bool | None
    by_request: tuple[ComparedRequests, ...]
    by_run: tuple[ComparedRuns, ...]
    also: tuple[str, ...]

    def measure(self, name: str) -> ComparedRequests | ComparedRuns:
        """The one of that name."""
        every: tuple[ComparedRequests | ComparedRuns, ...] = (*self.by_request, *self.by_run)
        return next(each for each in every if each.name == name)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def compare_arms(
    a: Arm, b: Arm, *, phase: str = "warm", varies: Collection[str] = (), seed: int = 0
) -> Comparison:
    """B against A in every measure.

    Raises:
        IncomparableRunsError: they say nothing about each other.
    """
    check_comparable(a, b, phase=phase, varies=varies)
    clusters = {
        line.id: line.session for line in of_phase(a.runs[0], phase) if line.session is not None
    }
    summaries = [[summarise(of_phase(run, phase)) for run in arm.runs] for arm in (a, b)]
    return Comparison(
        a=a.name,
        b=b.name,
        rounds=(len(a.runs), len(b.runs)),
        requests=len(of_phase(a.runs[0], phase)),
        phase=phase,
        simulated=a.facts.target.simulated,
        by_request=tuple(
            _by_request(measure, a, b, phase, clusters, seed) for measure in REQUEST_MEASURES
        ),
        by_run=tuple(_by_run(measure, *summaries) for measure in RUN_MEASURES),
        also=tuple(_also(a, b)),
    )


def verdict_of(paired: Paired | None, words: tuple[str, str]) -> Verdict:
    """A difference is shown if the requests, the rounds and the noise all allow it."""
    if paired is None:
        return Verdict(word=NO_DIFFERENCE, why="not told by both")
    once = paired.over_rounds is None
    size = abs(paired.effect)
    if not size or not paired.over_requests.excludes_zero:
        why = "the requests' interval holds 0"
    elif paired.noise is not None and size <= paired.noise:
        why = "within the noise of A against A"
    elif paired.over_rounds is not None and not paired.over_rounds.excludes_zero:
        why = "the rounds' interval holds 0"
    else:
        return Verdict(word=words[paired.effect > 0], once=once)
    return Verdict(word=NO_DIFFERENCE, why=why, once=once)


def _by_request(
    measure: RequestMeasure,
    a: Arm,
    b: Arm,
    phase: str,
    clusters: Mapping[str, str],
    seed: int,
) -> ComparedRequests:
    paired = compare_paired(
        values_by_id(a.runs, phase, measure.value),
        values_by_id(b.runs, phase, measure.value),
        clusters=clusters,
        scale=measure.scale,
        seed=seed,
    )
    verdict = verdict_of(paired, measure.words)
    return ComparedRequests(name=measure.name, unit=measure.unit, paired=paired, verdict=verdict)


def _by_run(measure: RunMeasure, a: Sequence[Summary], b: Sequence[Summary]) -> ComparedRuns:
    ones = tuple(measure.value(summary) for summary in a)
    others = tuple(measure.value(summary) for summary in b)
    # Errors and hit rates may be 0, throughputs may not.
    scale: Scale = "ratio" if measure.unit == "per s" else "difference"
    pairs = zip(ones, others, strict=False)
    effects = [found for pair in pairs if (found := _effect(*pair, scale)) is not None]
    noise = [
        abs(found)
        for values in (ones, others)
        for pair in combinations(values, 2)
        if (found := _effect(*pair, scale)) is not None
    ]
    interval = interval_of_rounds(effects)
    return ComparedRuns(
        name=measure.name,
        unit=measure.unit,
        a=ones,
        b=others,
        scale=scale,
        effect=fmean(effects) if effects else None,
        over_rounds=interval,
        verdict=_verdict_of_rounds(effects, interval, max(noise, default=0.0), measure.words),
    )


def _effect(one: float | None, other: float | None, scale: Scale) -> float | None:
    if one is None or other is None:
        return None
    if scale == "difference":
        return other - one
    return log(other / one) if one and other else None


def _verdict_of_rounds(
    effects: list[float], interval: Interval | None, noise: float, words: tuple[str, str]
) -> Verdict:
    if not effects:
        return Verdict(word=NO_DIFFERENCE, why="not told by both")
    if not any(effects):
        return Verdict(word=NO_DIFFERENCE, why="the same in each round", once=interval is None)
    if interval is None:
        return Verdict(word=NO_DIFFERENCE, why="one round says nothing of a whole run", once=True)
    if abs(fmean(effects)) <= noise:
        return Verdict(word=NO_DIFFERENCE, why="within the noise of A against A")
    if not interval.excludes_zero:
        return Verdict(word=NO_DIFFERENCE, why="the rounds' interval holds 0")
    return Verdict(word=words[fmean(effects) > 0])


def _also(a: Arm, b: Arm) -> list[str]:
    """What else differs between the two: worth a look, but no reason to refuse."""
    found = []
    for what in ("processor", "cores"):
        ones, others = a.facts.machine.get(what), b.facts.machine.get(what)
        if ones != others:
            found.append(f"{what}: {ones} and {others}")
    if a.facts.commit != b.facts.commit:
        found.append(f"commit: {a.facts.commit} and {b.facts.commit}")
    if a.facts.target.kind != b.facts.target.kind:
        found.append(f"target: {a.facts.target.kind} and {b.facts.target.kind}")
    if a.facts.engine is not None and b.facts.engine is not None:
        ones, others = a.facts.engine.flags, b.facts.engine.flags
        found += [
            f"{flag}: {ones.get(flag)} and {others.get(flag)}"
            for flag in sorted(ones.keys() | others.keys())
            if ones.get(flag) != others.get(flag) and not any(p in flag for p in _PLACES)
        ]
    return found
