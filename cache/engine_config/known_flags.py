"""The flags of SGLang and of `lmcache server`, each with its other spellings and what follows it.

Source: the argument parsers of sglang 0.5.23 (`ServerArgs.add_cli_args`) and lmcache 0.5.6
(`ServerCommand.add_arguments`), written to `flags/*.txt`, one option a line: the name under which
the parser keeps it, how many values it takes, its spellings. `tests/cache/engine_config` compares
them with the parsers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "flags"


class Takes(StrEnum):
    """What follows a flag."""

    NOTHING = "flag"
    SWITCH = "switch"
    """Nothing, and `--no-…` turns it off."""
    ONE = "one"
    PERHAPS_ONE = "maybe"
    SEVERAL = "many"
    ONE_EACH_TIME = "each"
    """One value; the flag may be given many times, and all count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option of a parser."""

    name: str
    takes: Takes
    spellings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTable:
    """A parser's options by their spellings."""

    program: str
    by_spelling: Mapping[str, Flag]

    def find(self, spelling: str) -> Flag | None:
        """The option of that spelling, or of the only one that it begins, as argparse reads it."""
        exact = self.by_spelling.get(spelling)
        if exact is not None or len(spelling) < len("--x"):
            return exact
        begun = {f.name: f for s, f in self.by_spelling.items() if s.startswith(spelling)}
        return next(iter(begun.values())) if len(begun) == 1 else None

    def nearest(self, spelling: str) -> str | None:
        """A known spelling that a mistyped one is close to."""
        close = get_close_matches(spelling, self.by_spelling, n=1, cutoff=0.85)
        return close[0] if close else None


@cache
def sglang_flags() -> FlagTable:
    """Those of SGLang 0.5.23."""
    return _read("SGLang 0.5.23", "sglang-0.5.23.txt")


@cache
def tier_flags() -> FlagTable:
    """Those of `lmcache server` 0.5.6."""
    return _read("lmcache server 0.5.6", "lmcache-server-0.5.6.txt")


def _read(program: str, file: str) -> FlagTable:
    by_spelling: dict[str, Flag] = {}
    for line in (_FOLDER / file).read_text("utf-8").splitlines():
        name, takes, *spellings = line.split()
        flag = Flag(name=name, takes=Takes(takes), spellings=tuple(spellings))
        by_spelling |= dict.fromkeys(spellings, flag)
    return FlagTable(program=program, by_spelling=by_spelling)
