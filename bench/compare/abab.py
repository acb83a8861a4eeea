"""Runs in turns: A, B, A, B, so that what changes on the machine falls on both."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.errors import RunFolderError
from bench.run_folder import FACTS_FILE, read_facts

FEWEST_ROUNDS = 2
_INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two.

    Attributes:
        before: what is done before each of its runs, such as emptying the engine.
        send: makes one run and writes it into the folder.
    """

    name: str
    before: Callable[[], None]
    send: Callable[[Path], None]


def alternate(a: Side, b: Side, *, rounds: int, out: Path) -> Iterator[tuple[str, int, Path]]:
    """Make the runs; tells side, round and folder of each one when it is done.

    They lie in `OUT/A/1`, `OUT/B/1`, `OUT/A/2` and so on.

    Raises:
        RunFolderError: there are runs already.
        KeyboardInterrupt: a run was interrupted; the load generator only ends its own run.
    """
    for side in (a, b):
        for found in (out / side.name).glob(f"*/{FACTS_FILE}"):
            raise RunFolderError(found.parent, "there is a run already; name another folder")
    for number in range(1, rounds + 1):
        for side in (a, b):
            folder = out / side.name / str(number)
            side.before()
            side.send(folder)
            _stop_if_interrupted(folder)
            yield side.name, number, folder


def _stop_if_interrupted(folder: Path) -> None:
    if any(reason.startswith(_INTERRUPTED) for reason in read_facts(folder).reasons):
        raise KeyboardInterrupt
