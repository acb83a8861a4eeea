"""An experiment made: stacks started, arms asked in turns, everything written into one folder."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import msgspec
import orjson

from bench.compare.abab import Side, alternate
from bench.compare.comparable import CONTENT
from bench.errors import ExperimentError
from bench.experiments.cases import ArmPlan, Case
from bench.experiments.catalogue import Experiment
from bench.experiments.contents import Sizes
from bench.experiments.places import Host, Settings, emptied, running_place
from bench.pages.found import Compared, write_compared
from bench.rag_cag.client import Gateway
from bench.rag_cag.stacks import Stack
from bench.run_folder import (
    Load,
    Phase,
    RequestLine,
    Target,
    read_facts,
    read_requests,
    write_facts,
    write_requests,
)
from bench.workloads import Workload, WorkloadRequest, make_workload, write_workload

_WARM_UP_S = 300.0
# Not more than the smallest pool holds: of a number each digit may be a token.
_WARM_UP_WORDS = 200
# Engine and generator share this machine's cores, and what is compared differs by seconds. How late
# the generator was stands beside each run.
_REAL_LAG_S = 0.25
# A simulated engine's times are worth nothing anyway.
_SIMULATED_LAG_S = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One run that is to be made: what, to whom, how, and where its folder is to be.

    Attributes:
        max_lag_s: the run doesn't count if the generator, at p99, was later than that.
    """

    workload: Path
    target: Target
    model: str
    load: Load
    folder: Path
    max_lag_s: float
    command: str


Send = Callable[[Sending], None]


def make(
    experiment: Experiment,
    host: Host,
    sizes: Sizes,
    *,
    rounds: int,
    out: Path,
    command: str,
    send: Send,
    say: Say,
) -> None:
    """Run all cases; a folder for each is left in `out`.

    Raises:
        BenchError: a stack did not start or did not answer.
    """
    if host.real and experiment.only_simulated:
        raise ExperimentError(
            experiment.name, "it is for simulated engines only: leave --real away"
        )
    cases = experiment.cases(sizes)
    for settings, alike in groupby(cases, key=lambda case: (case.a.settings, case.b.settings)):
        with _places(experiment.name, host, settings) as places:
            for case in alike:
                sides = _sides(case, host, places, out=out / case.name, command=command, send=send)
                _in_turns(case, sides, rounds=rounds, out=out / case.name, say=say)
                write_compared(out / case.name, _compared(experiment, case, command))


def _compared(experiment: Experiment, case: Case, command: str) -> Compared:
    return Compared(
        title=f"{experiment.name}, {case.name}: {case.b.name} against {case.a.name}",
        question=experiment.question,
        a=case.a.name,
        b=case.b.name,
        varies=case.varies,
        expected=case.expected,
        command=command,
    )


@contextmanager
def _places(
    experiment: str, host: Host, settings: tuple[Settings, Settings]
) -> Iterator[Mapping[Settings, Stack]]:
    """A warm stack for each of the settings, all at once: those not asked are idle."""
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="foreword-bench-")))
        places: dict[Settings, Stack] = {}
        for each in dict.fromkeys(settings):
            place = folder / f"stack-{len(places)}"
            places[each] = running.enter_context(running_place(experiment, host, each, place))
            _warm_up(places[each].url)
        yield places


def _in_turns(case: Case, sides: tuple[Side, Side], *, rounds: int, out: Path, say: Say) -> None:
    began = time.monotonic()
    for name, number, folder in alternate(*sides, rounds=rounds, out=out):
        facts = read_facts(folder)
        note = "" if facts.valid else f", invalid: {', '.join(facts.reasons)}"
        say(f"{case.name}: round {number} of {name}, at {time.monotonic() - began:.0f} s{note}")


def _sides(
    case: Case,
    host: Host,
    places: Mapping[Settings, Stack],
    *,
    out: Path,
    command: str,
    send: Send,
) -> tuple[Side, Side]:
    a, b = (
        _side(arm, case, host, places[arm.settings], out=out, command=command, send=send)
        for arm in (case.a, case.b)
    )
    return a, b


def _side(
    arm: ArmPlan, case: Case, host: Host, stack: Stack, *, out: Path, command: str, send: Send
) -> Side:
    workload = arm.workload
    if arm.collection is not None:
        workload = _of_collection(workload, _collection(stack, case), arm.collection)
    file = out / f"{arm.name}.workload.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    write_workload(file, workload)

    def make_run(folder: Path) -> None:
        send(
            Sending(
                workload=file,
                target=Target(url=stack.url, kind="foreword", simulated=not host.real),
                model=host.model_name,
                load=Load(kind="closed", concurrency=case.concurrency),
                folder=folder,
                max_lag_s=_REAL_LAG_S if host.real else _SIMULATED_LAG_S,
                command=command,
            )
        )
        _label(folder, arm.name, str(workload.header.parameters["content_sha256"]))

    return Side(name=arm.name, before=lambda: emptied(stack), send=make_run)


def _label(folder: Path, arm: str, content: str) -> None:
    """Say what the run was of, and which of its requests only filled the caches."""
    facts = read_facts(folder)
    labels = dict(facts.labels) | {"arm": arm, CONTENT: content}
    write_facts(folder, msgspec.structs.replace(facts, labels=labels))
    write_requests(folder, [_line(line, folder) for line in read_requests(folder)])


def _line(line: RequestLine, folder: Path) -> RequestLine:
    """Caches are emptied between rounds, which a gateway takes for loss: it knows no ideal then."""
    phase: Phase = "cold" if line.labels.get("phase") == "cold" else "warm"
    line = msgspec.structs.replace(line, phase=phase)
    if folder.name == "1":
        return line
    return msgspec.structs.replace(line, ideal_tokens=None, verdict=None)


def _collection(stack: Stack, case: Case) -> str:
    """The id of a collection with the case's documents."""
    gateway = Gateway(stack.url)
    try:
        return gateway.add_collection(case.name, case.documents)
    finally:
        gateway.close()


def _of_collection(workload: Workload, store: str, mode: str) -> Workload:
    """The same requests, of a collection in a mode."""

    def named(request: WorkloadRequest) -> WorkloadRequest:
        body = orjson.loads(bytes(request.body)) | {"foreword": {"collection": store, "mode": mode}}
        raw = msgspec.Raw(orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
        return msgspec.structs.replace(request, body=raw)

    header = workload.header
    return make_workload(
        f"{header.name}.{mode}",
        map(named, workload.requests),
        seed=header.seed,
        parameters=dict(header.parameters) | {"mode": mode},
    )


def warm_up_text(number: int) -> str:
    """A prompt that has nothing of any workload."""
    return " ".join(f"{number} {word}" for word in range(_WARM_UP_WORDS))


def _warm_up(url: str) -> None:
    """An engine's first prompts take longer than any later one; nothing measured is in these."""
    for number in range(2):
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": warm_up_text(number)}],
            "max_tokens": 4,
            "temperature": 0,
        }
        httpx.post(
            f"{url}/v1/chat/completions", json=body, timeout=_WARM_UP_S, trust_env=False
        ).raise_for_status()
