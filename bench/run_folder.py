"""The folder that a run leaves: `run.json` and `requests.jsonl`, written and read alike.

```
FOLDER/run.json        what was asked of whom, on what machine, and if it counts (`RunFacts`)
FOLDER/requests.jsonl  a line for each request, in the order of the workload (`RequestLine`)
```

Times are seconds from the run's start. What isn't known is None, never 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bench.errors import RunFolderError

KIND: Final = "foreword.run"
VERSION: Final = 1
FACTS_FILE = "run.json"
REQUESTS_FILE = "requests.jsonl"

Phase = Literal["cold", "warm"]


class WorkloadRef(msgspec.Struct, frozen=True, kw_only=True):
    """Which list of requests was sent; equal lists have equal `sha256`."""

    name: str
    sha256: str
    requests: int
    seed: int | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked.

    Attributes:
        kind: `foreword`, `sglang`, `vllm`, `openai`, or another word for it.
        simulated: whether a simulated engine is behind it; None: not known.
    """

    url: str
    kind: str
    simulated: bool | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """When requests were sent.

    Attributes:
        kind: `closed`, `constant`, `poisson`, `gamma` or `trace`.
        concurrency: most requests in flight; None: no bound.
        burstiness: the gamma distribution's shape; 1 is Poisson.
        speedup: by how much a trace's own times were shortened.
    """

    kind: str
    rate_per_s: float | None = None
    concurrency: int | None = None
    burstiness: float | None = None
    speedup: float | None = None


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine said of itself: flags, and where its memory went."""

    flags: Mapping[str, Any] = {}
    memory: Mapping[str, Any] = {}


class EngineCounted(msgspec.Struct, frozen=True, kw_only=True):
    """What the engines' own counters rose by: the second opinion on what answers tell."""

    prompt_tokens: int
    cached_tokens: int
    requests: int


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of whom, and on what.

    Attributes:
        load_average: of one, five and fifteen minutes, at the run's end.
        lag_p99_s: by how much the generator itself was late.
        generator: how it was scheduled, `real-time` or `ordinary`; None: not known.
        valid: whether the run says anything; `reasons` tell why not.
        labels: what the caller calls this run, such as `arm` and `round`.
    """

    kind: Literal["foreword.run"] = KIND
    version: Literal[1] = VERSION
    command: str
    workload: WorkloadRef
    target: Target
    model: str
    load: Load
    seed: int | None = None
    commit: str | None = None
    machine: Mapping[str, Any] = {}
    load_average: tuple[float, float, float] | None = None
    engine: EngineFacts | None = None
    counted: EngineCounted | None = None
    started_at: str | None = None
    duration_s: float | None = None
    lag_p99_s: float | None = None
    generator: str | None = None
    valid: bool = True
    reasons: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its client saw it.

    Attributes:
        phase: `cold` for those sent to fill what is measured, `warm` for those that count.
        done_s: when the last of the answer came, its end mark included; None: it never did.
        chunk_s: when each piece of text came, from the first one on (which is 0).
        status: HTTP's; None where no answer began.
        error: what went wrong, in a few words.
        cached_tokens: prompt tokens that the engine re-used.
        by_tier: of these, from where.
        ideal_tokens: what a cache without bounds would have re-used.
        answer_sha256: of the whole text.
    """

    id: str
    session: str | None = None
    turn: int = 0
    phase: Phase = "warm"
    scheduled_s: float | None = None
    sent_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    done_s: float | None = None
    chunk_s: tuple[float, ...] = ()
    status: int | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    by_tier: Mapping[str, int | None] | None = None
    ideal_tokens: int | None = None
    verdict: str | None = None
    answer_sha256: str | None = None
    labels: Mapping[str, str] = {}

    @property
    def ttft_s(self) -> float | None:
        """From sending it to the first of its text."""
        return _between(self.sent_s, self.first_token_s)

    @property
    def e2e_s(self) -> float | None:
        """From sending it to its last chunk, whether that has text or only usage and the end."""
        return _between(self.sent_s, self.done_s)

    @property
    def tpot_s(self) -> float | None:
        """Seconds for each token after the first: (E2E - TTFT) / (tokens - 1), as elsewhere.

        An answer without text has no first token, and so no time between tokens.
        """
        decoding = _between(self.first_token_s, self.done_s)
        if decoding is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return decoding / (self.output_tokens - 1)

    @property
    def ok(self) -> bool:
        """Whether it was answered whole."""
        return self.error is None and self.status == 200 and self.done_s is not None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it lies in its folder."""

    folder: Path
    facts: RunFacts
    requests: tuple[RequestLine, ...]


def write_facts(folder: Path, facts: RunFacts) -> None:
    """Write `run.json`, the folder too."""
    folder.mkdir(parents=True, exist_ok=True)
    told = msgspec.json.format(msgspec.json.encode(facts), indent=1)
    (folder / FACTS_FILE).write_bytes(told + b"\n")


def write_requests(folder: Path, lines: Iterable[RequestLine]) -> None:
    """Write `requests.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = msgspec.json.Encoder()
    with (folder / REQUESTS_FILE).open("wb") as file:
        for line in lines:
            file.write(encoder.encode(line) + b"\n")


def read_facts(folder: Path) -> RunFacts:
    """`run.json`.

    Raises:
        RunFolderError: it isn't there, or isn't what this version reads.
    """
    path = folder / FACTS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunFacts)
    except OSError as error:
        raise RunFolderError(folder, f"{FACTS_FILE}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise RunFolderError(folder, f"{FACTS_FILE}: {error}") from error


def read_requests(folder: Path) -> Iterator[RequestLine]:
    """Each line of `requests.jsonl`, as it is needed.

    Raises:
        RunFolderError: it isn't there, or a line isn't what this version reads.
    """
    path = folder / REQUESTS_FILE
    decoder = msgspec.json.Decoder(RequestLine)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decoder.decode(line)
                except msgspec.MsgspecError as error:
                    raise RunFolderError(
                        folder, f"{REQUESTS_FILE}, line {number}: {error}"
                    ) from error
    except OSError as error:
        raise RunFolderError(folder, f"{REQUESTS_FILE}: {error.strerror}") from error


def read_run(folder: Path) -> Run:
    """The whole run.

    Raises:
        RunFolderError: one of its files can't be read.
    """
    return Run(folder=folder, facts=read_facts(folder), requests=tuple(read_requests(folder)))


def _between(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else end_s - start_s
