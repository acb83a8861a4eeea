"""What can go wrong in the harness.

```
BenchError
├── FaultyError                 (subject, problem)
│   ├── CorpusError             subject: a package
│   ├── ExperimentError         an experiment's name
│   ├── FaultSuiteError         a part of the suite
│   ├── GatewayAnswerError      a gateway's URL
│   ├── GatewayBenchError       a gateway's name
│   ├── ReplayError             a trace
│   ├── RunFolderError          a folder
│   ├── RunFolderTakenError     a folder
│   ├── SoakError               a part of the soak
│   ├── TargetError             a URL
│   └── WorkloadError           a file or an option
├── IncomparableRunsError       (differences)
├── SimulatorError
│   ├── SimulatorConfigError    (subject, problem), also a FaultyError; subject: a setting
│   ├── SimulatorStartError     the same; an address
│   ├── SimulatorStopError      the same; an address
│   ├── ModelFolderError        (path, missing)
│   └── EvictionError           (asked_tokens, evictable_tokens)
├── StackStartError             (what, log, said)
├── TraceError                  (path, line, problem)
└── TraceNotFoundError          (folder)
```
"""

from pathlib import Path
from typing import ClassVar


class BenchError(Exception):
    """Root of this package's errors."""


class FaultyError(BenchError):
    """Something is at fault: what it is, and what is wrong with it.

    Attributes:
        sentence: how a kind of error says both.
    """

    sentence: ClassVar[str] = "{subject}: {problem}"

    def __init__(self, subject: object, problem: str) -> None:
        super().__init__(subject, problem)
        self.subject = subject
        self.problem = problem

    def __str__(self) -> str:
        return self.sentence.format(subject=self.subject, problem=self.problem)


class CorpusError(FaultyError):
    """A package of the retrieval corpus could not be had, or isn't the pinned one."""

    sentence = "{subject} could not be taken into the corpus: {problem}"


class ExperimentError(FaultyError):
    """A named experiment can't be run as it was asked for."""

    sentence = "experiment {subject}: {problem}"


class FaultSuiteError(FaultyError):
    """The fault suite could not be begun, or could not go on."""

    sentence = "{subject} {problem}"


class GatewayAnswerError(FaultyError):
    """A gateway refused, or answered with something that isn't an answer."""

    sentence = "the gateway at {subject} did not answer as it should: {problem:.500}"


class GatewayBenchError(FaultyError):
    """A gateway that is to be measured can't be had, doesn't start, or answers wrongly."""

    sentence = "{subject} {problem}"


class IncomparableRunsError(BenchError):
    """Two runs say nothing about each other; `differences` tell why, a clause each."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        super().__init__(differences)
        self.differences = differences

    def __str__(self) -> str:
        return (
            f"these runs can't be compared: {'; '.join(self.differences)}; "
            "run both again with the same requests, model and load"
        )


class ReplayError(FaultyError):
    """A trace can't be replayed as asked."""

    sentence = "{subject} {problem}"


class RunFolderError(FaultyError):
    """A folder isn't the folder of a run, or can't be read."""

    sentence = "{subject} is not a run that can be read: {problem}"


class RunFolderTakenError(FaultyError):
    """A run's folder can't be begun: there is one in it, or it can't be written."""

    sentence = "{subject} {problem}: name another folder"


class SimulatorError(BenchError):
    """The simulated engine is at fault, or was asked for what it can't do."""


class SimulatorConfigError(SimulatorError, FaultyError):
    """A setting of the simulator makes no sense."""

    sentence = "{subject} {problem}"


class ModelFolderError(SimulatorError):
    """The folder named as the model lacks what the simulator reads from it."""

    def __init__(self, path: Path, missing: str) -> None:
        super().__init__(path, missing)
        self.path = path
        self.missing = missing

    def __str__(self) -> str:
        return (
            f"{self.path} has no {self.missing}: name a folder with tokenizer.json, "
            "tokenizer_config.json and a chat template"
        )


class SimulatorStartError(SimulatorError, FaultyError):
    """The simulator could not take its address."""

    sentence = "the simulator could not listen on {subject}: {problem}"


class SimulatorStopError(SimulatorError, FaultyError):
    """The simulator goes on, although it was stopped."""

    sentence = "the simulator on {subject} goes on: {problem}"


class EvictionError(SimulatorError):
    """More tokens were to be freed than are free to go; nothing was evicted."""

    def __init__(self, asked_tokens: int, evictable_tokens: int) -> None:
        super().__init__(asked_tokens, evictable_tokens)
        self.asked_tokens = asked_tokens
        self.evictable_tokens = evictable_tokens

    def __str__(self) -> str:
        return (
            f"{self.asked_tokens} tokens were to be evicted, but only {self.evictable_tokens} "
            "are not locked; unlock nodes first or ask for less"
        )


class SoakError(FaultyError):
    """A soak could not be begun, or could not go on."""


class StackStartError(BenchError):
    """What was to be measured did not get ready; `said` is the last that its log has."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what, log)
        self.what = what
        self.log = log
        # The log lies in a folder that goes with the benchmark.
        self.said = _last_line(log)

    def __str__(self) -> str:
        return f"{self.what} did not get ready: {self.said}"


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", errors="replace").strip().splitlines()
    except OSError as error:
        return f"{log} can't be read ({error.strerror})"
    return lines[-1][:500] if lines else "it said nothing"


class TraceError(BenchError):
    """A trace can't be read as one; `line` is None where it isn't about one line."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path = path
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        place = "" if self.line is None else f", line {self.line}"
        return f"{self.path}{place}: {self.problem}"


class TraceNotFoundError(BenchError):
    """A folder has none of the traces that were asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return (
            f"{self.folder} has no such trace: put mooncake_conversation.jsonl and "
            "mooncake_synthetic.jsonl there, from kvcache-ai/Mooncake's FAST25-release/traces"
        )


class TargetError(FaultyError):
    """What is to be measured can't be reached, or can't do what was asked of it."""

    sentence = "{subject} {problem}"


class WorkloadError(FaultyError):
    """A workload can't be made or read; its subject is the file or the option."""
