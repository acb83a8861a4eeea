"""What lies in the folders that a page is made of: runs by series, comparisons, replays' rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.compare.arms import Arm
from bench.errors import RunFolderError
from bench.run_folder import FACTS_FILE, Run, read_run

ROWS_FILE = "rows.jsonl"
COMPARED_FILE = "compared.json"


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared in this folder; A and B are folders beside this file.

    Attributes:
        expected: `gain`, `none` or `any`, of B over A.
    """

    title: str
    question: str
    a: str
    b: str
    phase: str = "warm"
    varies: tuple[str, ...] = ()
    expected: str = "any"
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two arms, and what was to be found out."""

    compared: Compared
    a: Arm
    b: Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything in the folders.

    Attributes:
        series: runs by the name of the folder that holds them.
        replays: rows of replays by folder.
    """

    series: Mapping[str, Sequence[Run]]
    pairs: Sequence[Pair]
    replays: Mapping[str, Sequence[Mapping[str, Any]]]


def find(folders: Sequence[Path]) -> Found:
    """Look through the folders.

    Raises:
        RunFolderError: there is neither a run nor a replay in them, or one can't be read.
    """
    series: dict[str, list[Run]] = {}
    pairs: list[Pair] = []
    replays: dict[str, Sequence[Mapping[str, Any]]] = {}
    for folder in folders:
        for place in _sorted(folder.rglob(FACTS_FILE)):
            series.setdefault(_series(folder, place.parent), []).append(read_run(place.parent))
        for place in _sorted(folder.rglob(COMPARED_FILE)):
            pairs.append(_pair(place))
        for place in _sorted(folder.rglob(ROWS_FILE)):
            replays[_name(folder, place.parent)] = list(_rows(place))
    if not series and not replays:
        raise RunFolderError(folders[0], f"there is no {FACTS_FILE} and no {ROWS_FILE} below it")
    return Found(series=series, pairs=pairs, replays=replays)


def write_compared(folder: Path, compared: Compared) -> None:
    """Say what lies in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    told = msgspec.json.format(msgspec.json.encode(compared), indent=1)
    (folder / COMPARED_FILE).write_bytes(told + b"\n")


def _pair(file: Path) -> Pair:
    folder = file.parent
    try:
        compared = msgspec.json.decode(file.read_bytes(), type=Compared)
    except msgspec.MsgspecError as error:
        raise RunFolderError(folder, f"{COMPARED_FILE}: {error}") from error
    arms = []
    for name in (compared.a, compared.b):
        runs = tuple(read_run(p.parent) for p in _sorted((folder / name).glob(f"*/{FACTS_FILE}")))
        if not runs:
            raise RunFolderError(folder / name, "there is no run in it")
        arms.append(Arm(name=name, runs=runs))
    return Pair(compared=compared, a=arms[0], b=arms[1])


def _rows(file: Path) -> Iterator[Mapping[str, Any]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                problem = f"{file.name}, line {number}: {error}"
                raise RunFolderError(file.parent, problem) from error


def _series(top: Path, folder: Path) -> str:
    """Rounds and rates of one thing lie side by side: their parent's name is the series'."""
    return _name(top, folder if folder == top else folder.parent)


def _name(top: Path, folder: Path) -> str:
    return top.name if folder == top else folder.relative_to(top).as_posix()


def _sorted(files: Iterator[Path]) -> list[Path]:
    return sorted(files, key=lambda file: file.as_posix())
