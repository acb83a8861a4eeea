"""An arm: the runs of one of two things that are compared, a round each. Reads run folders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import RunFolderError
from bench.run_folder import FACTS_FILE, Phase, RequestLine, Run, RunFacts, read_run

ANY_PHASE = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Runs of the same thing, in the order in which they were made."""

    name: str
    runs: tuple[Run, ...]

    @property
    def facts(self) -> RunFacts:
        """Of its first run."""
        return self.runs[0].facts


def read_arm(folder: Path, name: str | None = None) -> Arm:
    """One run's folder, or a folder of such folders.

    Raises:
        RunFolderError: there is no run in it.
    """
    folders = [folder] if (folder / FACTS_FILE).exists() else run_folders(folder)
    if not folders:
        raise RunFolderError(folder, f"there is no {FACTS_FILE} in it, nor right below it")
    return Arm(name=name or folder.name, runs=tuple(read_run(each) for each in folders))


def run_folders(folder: Path) -> list[Path]:
    """The runs right below a folder; names that end in numbers are in their order."""
    found = [file.parent for file in folder.glob(f"*/{FACTS_FILE}")]
    return sorted(found, key=lambda each: (_number(each.name), each.name))


def _number(name: str) -> int:
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else -1


def of_phase(run: Run, phase: Phase | str) -> list[RequestLine]:
    """A run's requests of one phase, or all."""
    return [line for line in run.requests if phase in (ANY_PHASE, line.phase)]


def values_by_id(
    runs: Sequence[Run], phase: str, value: Callable[[RequestLine], float | None]
) -> list[Mapping[str, float]]:
    """For each run what is known of each answered request."""
    return [
        {
            line.id: known
            for line in of_phase(run, phase)
            if line.ok and (known := value(line)) is not None
        }
        for run in runs
    ]
