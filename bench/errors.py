"""What can go wrong in the harness.

```
BenchError
├── CorpusError                 (package, problem)
├── ExperimentError             (experiment, problem)
├── FaultSuiteError             (what, problem)
├── GatewayAnswerError          (url, problem)
├── GatewayBenchError           (gateway, problem)
├── IncomparableRunsError       (differences)
├── ReplayError                 (trace, problem)
├── RunFolderError              (folder, problem)
├── RunFolderTakenError         (folder, problem)
├── SimulatorError
│   ├── SimulatorConfigError    (field, problem)
│   ├── ModelFolderError        (path, missing)
│   ├── SimulatorStartError     (address, problem)
│   └── EvictionError           (asked_tokens, evictable_tokens)
├── SoakError                   (what, problem)
├── StackStartError             (what, log, said)
├── TargetError                 (url, problem)
├── TraceError                  (path, line, problem)
├── TraceNotFoundError          (folder)
└── WorkloadError               (what, problem)
```
"""

from pathlib import Path


class BenchError(Exception):
    """Root of this package's errors."""


class CorpusError(BenchError):
    """A package of the retrieval corpus could not be had, or isn't the pinned one."""

    def __init__(self, package: str, problem: str) -> None:
        super().__init__(package, problem)
        self.package = package
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.package} could not be taken into the corpus: {self.problem}"


class ExperimentError(BenchError):
    """A named experiment can't be run as it was asked for."""

    def __init__(self, experiment: str, problem: str) -> None:
        super().__init__(experiment, problem)
        self.experiment = experiment
        self.problem = problem

    def __str__(self) -> str:
        return f"experiment {self.experiment}: {self.problem}"


class FaultSuiteError(BenchError):
    """The fault suite could not be begun, or could not go on."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} {self.problem}"


class GatewayAnswerError(BenchError):
    """A gateway refused, or answered with something that isn't an answer."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return f"the gateway at {self.url} did not answer as it should: {self.problem[:500]}"


class GatewayBenchError(BenchError):
    """A gateway that is to be measured can't be had, doesn't start, or answers wrongly."""

    def __init__(self, gateway: str, problem: str) -> None:
        super().__init__(gateway, problem)
        self.gateway = gateway
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.gateway} {self.problem}"


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


class ReplayError(BenchError):
    """A trace can't be replayed as asked."""

    def __init__(self, trace: str, problem: str) -> None:
        super().__init__(trace, problem)
        self.trace = trace
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.trace} {self.problem}"


class RunFolderError(BenchError):
    """A folder isn't the folder of a run, or can't be read."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.folder} is not a run that can be read: {self.problem}"


class RunFolderTakenError(BenchError):
    """A run's folder can't be begun: there is one in it, or it can't be written."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.folder} {self.problem}: name another folder"


class SimulatorError(BenchError):
    """The simulated engine is at fault, or was asked for what it can't do."""


class SimulatorConfigError(SimulatorError):
    """A setting of the simulator makes no sense."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field} {self.problem}"


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


class SimulatorStartError(SimulatorError):
    """The simulator could not take its address."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return f"the simulator could not listen on {self.address}: {self.problem}"


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


class SoakError(BenchError):
    """A soak could not be begun, or could not go on."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}"


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


class TargetError(BenchError):
    """What is to be measured can't be reached, or can't do what was asked of it."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.url} {self.problem}"


class WorkloadError(BenchError):
    """A workload can't be made or read; `what` is the file or the option."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}"
