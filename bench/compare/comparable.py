"""Whether two arms say anything about each other. Pure."""

from collections.abc import Collection, Iterator

from bench.compare.arms import Arm, of_phase
from bench.errors import IncomparableRunsError
from bench.run_folder import Load, RunFacts

CONTENT = "content_sha256"
"""Label of runs whose requests hold the same content in another order or other bytes."""

VARIES = ("workload", "model", "load", "concurrency")
"""What may be declared as the thing that the arms differ in."""


def check_comparable(a: Arm, b: Arm, *, phase: str, varies: Collection[str] = ()) -> None:
    """Nothing, where the two can be compared.

    Args:
        varies: what the arms are meant to differ in, of `VARIES`.

    Raises:
        IncomparableRunsError: they differ in more than that, or a run doesn't count.
    """
    found = tuple(dict.fromkeys(_differences(a, b, phase, varies)))
    if found:
        raise IncomparableRunsError(found)


def _differences(a: Arm, b: Arm, phase: str, varies: Collection[str]) -> Iterator[str]:
    for arm in (a, b):
        for run in arm.runs:
            if not run.facts.valid:
                why = ", ".join(run.facts.reasons) or "no reason was noted"
                yield f"{_named(arm, run.folder.name)} was invalid ({why})"
            if not of_phase(run, phase):
                yield f"{_named(arm, run.folder.name)} has no {phase} requests"
    for arm in (a, b):  # the rounds of one arm must be alike in everything
        for run in arm.runs[1:]:
            yield from _of_facts(arm.facts, run.facts, ())
    yield from _of_facts(a.facts, b.facts, varies)
    ids = [[{line.id for line in of_phase(run, phase)} for run in arm.runs] for arm in (a, b)]
    if any(each != ids[0][0] for arm_ids in ids for each in arm_ids):
        yield f"their {phase} requests have different ids"


def _named(arm: Arm, folder: str) -> str:
    return arm.name if arm.name == folder else f"{arm.name} {folder}"


def _of_facts(a: RunFacts, b: RunFacts, varies: Collection[str]) -> Iterator[str]:
    if a.workload.sha256 != b.workload.sha256:
        contents = a.labels.get(CONTENT), b.labels.get(CONTENT)
        if "workload" not in varies:
            yield f"their workloads differ ({_short(a)} and {_short(b)})"
        elif contents[0] is None or contents[0] != contents[1]:
            yield "their workloads don't hold the same content"
    if a.model != b.model and "model" not in varies:
        yield f"their models differ ({a.model} and {b.model})"
    if _load(a.load) != _load(b.load) and "load" not in varies:
        yield f"their loads differ ({_load_text(a.load)} and {_load_text(b.load)})"
    if a.load.concurrency != b.load.concurrency and "concurrency" not in varies:
        yield f"their concurrency differs ({a.load.concurrency} and {b.load.concurrency})"
    if a.seed != b.seed and a.load.kind in ("poisson", "gamma"):
        yield f"their arrivals have different seeds ({a.seed} and {b.seed})"
    if a.target.simulated != b.target.simulated:
        yield "one of them had a simulated engine, the other not"


def _load(load: Load) -> tuple[object, ...]:
    return load.kind, load.rate_per_s, load.burstiness, load.speedup


def _load_text(load: Load) -> str:
    rate = "" if load.rate_per_s is None else f" {load.rate_per_s:g}/s"
    burstiness = "" if load.burstiness is None else f" burstiness {load.burstiness:g}"
    speedup = "" if load.speedup is None else f" {load.speedup:g} times as fast"
    return f"{load.kind}{rate}{burstiness}{speedup}"


def _short(facts: RunFacts) -> str:
    return f"{facts.workload.name} {facts.workload.sha256[:12]}"
