"""What can go wrong in the harness.

```
BenchError
├── CorpusError                 (package, problem)
├── GatewayAnswerError          (url, problem)
├── SimulatorError
│   ├── SimulatorConfigError    (field, problem)
│   ├── ModelFolderError        (path, missing)
│   ├── SimulatorStartError     (address, problem)
│   └── EvictionError           (asked_tokens, evictable_tokens)
├── SoakError                   (what, problem)
└── StackStartError             (what, log)
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


class GatewayAnswerError(BenchError):
    """A gateway refused, or answered with something that isn't an answer."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return f"the gateway at {self.url} did not answer as it should: {self.problem[:500]}"


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
    """What was to be measured did not get ready."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what, log)
        self.what = what
        self.log = log

    def __str__(self) -> str:
        return f"{self.what} did not get ready; {self.log} says why"
