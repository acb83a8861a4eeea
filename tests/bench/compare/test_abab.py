"""Runs in turns."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.compare.abab import Side, alternate
from bench.errors import RunFolderError
from bench.run_folder import write_facts
from tests.bench.compare.run_making import facts


def _sides(done: list[str], *, reasons: tuple[str, ...] = ()) -> tuple[Side, Side]:
    def send(name: str) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            done.append(f"send {name}")
            write_facts(folder, facts(valid=not reasons, reasons=reasons))

        return make

    a, b = (
        Side(name=name, before=lambda name=name: done.append(f"empty {name}"), send=send(name))
        for name in ("a", "b")
    )
    return a, b


def test_both_are_asked_in_turns_each_emptied_before(tmp_path: Path) -> None:
    done: list[str] = []
    made = list(alternate(*_sides(done), rounds=2, out=tmp_path))
    assert done == ["empty a", "send a", "empty b", "send b"] * 2
    assert [(name, number) for name, number, _ in made] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert made[-1][2] == tmp_path / "b" / "2"


def test_runs_that_are_there_are_never_written_over(tmp_path: Path) -> None:
    list(alternate(*_sides([]), rounds=1, out=tmp_path))
    with pytest.raises(RunFolderError, match="name another folder"):
        list(alternate(*_sides([]), rounds=1, out=tmp_path))


def test_an_interrupted_run_ends_all(tmp_path: Path) -> None:
    done: list[str] = []
    sides = _sides(done, reasons=("interrupted: 3 requests were under way",))
    with pytest.raises(KeyboardInterrupt):
        list(alternate(*sides, rounds=4, out=tmp_path))
    assert done == ["empty a", "send a"]
