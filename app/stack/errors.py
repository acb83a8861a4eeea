"""What can go wrong while the local stack is made, started or kept running.

StackError
├── AlreadyRunningError          (home, pid, url)
├── EngineUnreachableError       (url, problem)
├── HostNeedsKeysError           (host)
├── KvSerdeError                 (serde, problem)
├── PortTakenError               (host, port)
├── ProcessStartError            (name, why, log, last_lines)
├── ProcessGaveUpError           (name, attempts, log)
├── ProgramMissingError          (program, package)
├── EngineEnvironmentError
│   ├── DeployFilesMissingError  (looked_in)
│   ├── DiskFullError            (path)
│   ├── GpuMachineError          ()
│   ├── HashMismatchError        (package)
│   ├── InstallFailedError       (step, last_lines)
│   ├── PackageMissingError      (package)
│   ├── PackageIndexUnreachableError ()
│   ├── UnsupportedMachineError  (system, machine)
│   └── VenvFailedError          (last_lines)
└── ModelError
    ├── ModelNotFoundError       (model)
    ├── ModelIncompleteError     (path, missing)
    └── ModelConversionError     (name, last_lines)

Every error composes one sentence that says what to do; ``exit_code`` is what the
command line ends with: 2 for bad usage, 3 for "could not start".
"""

from pathlib import Path
from typing import ClassVar


class StackError(Exception):
    """The local stack could not be made, started or kept running."""

    exit_code: ClassVar[int] = 3


class AlreadyRunningError(StackError):
    """Another ``foreword up`` holds this home."""

    def __init__(self, *, home: Path, pid: int | None, url: str | None) -> None:
        self.home = home
        self.pid = pid
        self.url = url
        super().__init__(home, pid, url)

    def __str__(self) -> str:
        who = "another `foreword up`" if self.pid is None else f"`foreword up` (pid {self.pid})"
        where = "" if self.url is None else f" at {self.url}"
        return (
            f"{who} already runs in {self.home}{where}: use that one, stop it, "
            "or choose another home with --home."
        )


class EngineUnreachableError(StackError):
    """The engine given by ``--engine-url`` does not answer."""

    def __init__(self, *, url: str, problem: str) -> None:
        self.url = url
        self.problem = problem
        super().__init__(url, problem)

    def __str__(self) -> str:
        return (
            f"no engine is ready at {self.url} ({self.problem}): start SGLang there, "
            "or leave --engine-url away to have one started here."
        )


class HostNeedsKeysError(StackError):
    """The gateway was asked to listen beyond loopback with no keys to protect it."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *, host: str) -> None:
        self.host = host
        super().__init__(host)

    def __str__(self) -> str:
        return (
            f"--host {self.host} would let anyone on the network in, since there are no API keys: "
            "make the first one with `foreword keys create TENANT --role admin`, or keep to "
            "--host 127.0.0.1."
        )


class KvSerdeError(StackError):
    """A lossy serde that doesn't fit the model, or needs to know more of it."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *, serde: str, problem: str) -> None:
        self.serde = serde
        self.problem = problem
        super().__init__(serde, problem)

    def __str__(self) -> str:
        return (
            f"--kv-serde {self.serde} can't be used with this model ({self.problem}): "
            "choose fp8, or leave it away."
        )


class PortTakenError(StackError):
    """The asked port is in use."""

    def __init__(self, *, host: str, port: int) -> None:
        self.host = host
        self.port = port
        super().__init__(host, port)

    def __str__(self) -> str:
        return (
            f"port {self.port} on {self.host} is taken by another program: "
            "choose another with --port, or --port 0 for any free one."
        )


class ProcessStartError(StackError):
    """A process ended, or stayed unhealthy, before it was ready."""

    def __init__(self, *, name: str, why: str, log: Path, last_lines: tuple[str, ...]) -> None:
        self.name = name
        self.why = why
        self.log = log
        self.last_lines = last_lines
        super().__init__(name, why, log)

    def __str__(self) -> str:
        head = f"{self.name} could not start: {self.why}; its log is {self.log}"
        return _with_lines(head, self.last_lines)


class ProcessGaveUpError(StackError):
    """A process kept ending and is not started again."""

    def __init__(self, *, name: str, attempts: int, log: Path) -> None:
        self.name = name
        self.attempts = attempts
        self.log = log
        super().__init__(name, attempts, log)

    def __str__(self) -> str:
        return (
            f"{self.name} ended again after {self.attempts} restarts and is left stopped: "
            f"look at {self.log}, then start again with `foreword up`."
        )


class ProgramMissingError(StackError):
    """A program that was asked for is not installed."""

    def __init__(self, *, program: str, package: str) -> None:
        self.program = program
        self.package = package
        super().__init__(program, package)

    def __str__(self) -> str:
        return (
            f"{self.program} is not installed: install it (Debian, Ubuntu: "
            f"`apt install {self.package}`) or leave --redis away."
        )


class EngineEnvironmentError(StackError):
    """The engine's own environment could not be made."""


class DeployFilesMissingError(EngineEnvironmentError):
    """The lock file and plugin sources of the engine are not beside the package."""

    def __init__(self, *, looked_in: tuple[Path, ...]) -> None:
        self.looked_in = looked_in
        super().__init__(looked_in)

    def __str__(self) -> str:
        places = " or ".join(str(path) for path in self.looked_in)
        return (
            f"the engine's lock file and plugins are not in {places}: "
            "install Foreword again, or use a running engine with --engine-url."
        )


class DiskFullError(EngineEnvironmentError):
    """No space left while something was written."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def __str__(self) -> str:
        return (
            f"the disk that holds {self.path} is full: free about 5 GB, or set FOREWORD_CACHE to "
            "a folder on a larger disk, and run the command again (it continues where it stopped)."
        )


class GpuMachineError(EngineEnvironmentError):
    """The machine has an NVIDIA GPU, for which the CPU environment would be a waste."""

    def __str__(self) -> str:
        return (
            "this machine has an NVIDIA GPU, and Foreword's own environment is for the CPU only: "
            "start SGLang from docker-compose.yml and give its address with --engine-url, "
            "or say --cpu to run on the CPU all the same."
        )


class HashMismatchError(EngineEnvironmentError):
    """A downloaded file is not the one that was pinned."""

    def __init__(self, *, package: str) -> None:
        self.package = package
        super().__init__(package)

    def __str__(self) -> str:
        return (
            f"the downloaded file of {self.package} does not have the pinned hash, so it was not "
            "installed: empty pip's cache (`pip cache purge`) and try again; if it stays so, "
            "the package index serves another file than the one this release was tested with."
        )


class InstallFailedError(EngineEnvironmentError):
    """pip or a check after it failed for a reason of its own."""

    def __init__(self, *, step: str, last_lines: tuple[str, ...]) -> None:
        self.step = step
        self.last_lines = last_lines
        super().__init__(step)

    def __str__(self) -> str:
        head = f"{self.step} failed; run the command again to continue where it stopped"
        return _with_lines(head, self.last_lines)


class PackageMissingError(EngineEnvironmentError):
    """The index answers, but has no file of a pinned package for this machine."""

    def __init__(self, *, package: str) -> None:
        self.package = package
        super().__init__(package)

    def __str__(self) -> str:
        return (
            f"the package index has no file of {self.package} for this Python and machine: check "
            "`pip config list`, or use a running engine with --engine-url."
        )


class PackageIndexUnreachableError(EngineEnvironmentError):
    """No answer from the package index."""

    def __str__(self) -> str:
        return (
            "the package index could not be reached: check the network and `pip config list`, "
            "then run the command again (it continues where it stopped)."
        )


class UnsupportedMachineError(EngineEnvironmentError):
    """The engine's packages do not exist for this system."""

    def __init__(self, *, system: str, machine: str) -> None:
        self.system = system
        self.machine = machine
        super().__init__(system, machine)

    def __str__(self) -> str:
        return (
            f"the engine's packages are for Linux on x86-64, this is {self.system} on "
            f"{self.machine}: use a running SGLang with --engine-url."
        )


class VenvFailedError(EngineEnvironmentError):
    """``python -m venv`` failed."""

    def __init__(self, *, last_lines: tuple[str, ...]) -> None:
        self.last_lines = last_lines
        super().__init__(last_lines)

    def __str__(self) -> str:
        head = (
            "Python could not make a virtual environment for the engine "
            "(Debian, Ubuntu: `apt install python3-venv`)"
        )
        return _with_lines(head, self.last_lines)


class ModelError(StackError):
    """The model cannot be used."""


class ModelNotFoundError(ModelError):
    """No such folder, and not a model's name either."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *, model: str) -> None:
        self.model = model
        super().__init__(model)

    def __str__(self) -> str:
        return (
            f"--model {self.model}: no such folder; give the path of a model folder, "
            "a hub name such as Qwen/Qwen3-0.6B, or leave it away for the default."
        )


class ModelIncompleteError(ModelError):
    """The folder lacks files that SGLang needs."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *, path: Path, missing: tuple[str, ...]) -> None:
        self.path = path
        self.missing = missing
        super().__init__(path, missing)

    def __str__(self) -> str:
        return (
            f"--model {self.path}: the folder has no {' and no '.join(self.missing)}; "
            "give a folder in Hugging Face's format (config, tokenizer, weights)."
        )


class ModelConversionError(ModelError):
    """The packaged model could not be turned into a folder that SGLang serves."""

    def __init__(self, *, name: str, last_lines: tuple[str, ...]) -> None:
        self.name = name
        self.last_lines = last_lines
        super().__init__(name)

    def __str__(self) -> str:
        head = f"the conversion of {self.name} failed; run the command again"
        return _with_lines(head, self.last_lines)


def _with_lines(head: str, last_lines: tuple[str, ...]) -> str:
    if not last_lines:
        return f"{head}."
    return "\n".join((f"{head}. Last lines:", *(f"  | {line}" for line in last_lines)))
