"""What a `console` block says: commands after `$`, each with the output that it shows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ANYTHING = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command and the lines that are shown below it."""

    command: str
    output: tuple[str, ...]


def steps(text: str) -> Iterator[Step]:
    """The commands of a block. Lines before the first one belong to none and are left out."""
    command: list[str] = []
    output: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield _step(command, output)
            command, output = [line[2:]], []
        elif command and command[-1].endswith("\\") and not output:
            command.append(line.removeprefix("> "))
        else:
            output.append(line.rstrip())
    if command:
        yield _step(command, output)


def fits(shown: tuple[str, ...], came: str) -> bool:
    """Whether the output is what is shown: the same words, with `…` for any that are left out.

    Pages wrap long lines, so where a line ends doesn't count.
    """
    words = " ".join(" ".join(shown).split())
    pattern = ".*".join(re.escape(part.strip()) for part in words.split(_ANYTHING))
    return re.fullmatch(pattern, " ".join(came.split())) is not None


def _step(command: list[str], output: list[str]) -> Step:
    while output and not output[-1]:
        output.pop()
    return Step(command="\n".join(command), output=tuple(output))
