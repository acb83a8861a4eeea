"""Which lines a diff changes, so that only findings on those are shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prompts.lint.findings import Finding

_FILE = re.compile(r'^\+\+\+ (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\t\n]*))')
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(?P<start>\d+)(?:,(?P<count>\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLines:
    """Lines changed or added, by file; files in `new` are new as a whole."""

    lines: dict[Path, tuple[range, ...]]
    new: frozenset[Path] = frozenset()

    def holds(self, finding: Finding) -> bool:
        """Whether the finding's line was changed."""
        path = finding.place.path.resolve()
        if path in self.new:
            return True
        return any(finding.place.line in lines for lines in self.lines.get(path, ()))


def parse_diff(diff: str, root: Path, new: Sequence[Path] = ()) -> ChangedLines:
    """The lines of a unified diff without prefixes (`git diff -U0 --no-prefix`).

    `root` is the folder that its paths start from.
    """
    lines: dict[Path, list[range]] = {}
    current: list[range] = []
    left = 0
    for line in diff.split("\n"):
        if left > 0 and line[:1] in ("+", "-", "\\"):
            left -= line[:1] != "\\"
        elif named := _FILE.match(line):
            name = named["plain"] if named["quoted"] is None else _unquoted(named["quoted"])
            current = lines.setdefault((root / name).resolve(), [])
        elif hunk := _HUNK.match(line):
            start, count = int(hunk["start"]), int(hunk["count"] or 1)
            current.append(range(start, start + count))
            left = count + _removed(line)
    changed = {path: tuple(ranges) for path, ranges in lines.items()}
    return ChangedLines(lines=changed, new=frozenset(path.resolve() for path in new))


def _removed(hunk: str) -> int:
    count = hunk.split(" ")[1].partition(",")[2]
    return int(count) if count else 1


def _unquoted(name: str) -> str:
    """A path as Git writes it between quotes: C escapes, bytes as octal numbers."""
    data = bytearray()
    position = 0
    for escape in _ESCAPE.finditer(name):
        data += name[position : escape.start()].encode()
        code = escape.group(1)
        data += bytes([int(code, 8)]) if len(code) == 3 else _LETTERS.get(code, code).encode()
        position = escape.end()
    data += name[position:].encode()
    return data.decode(errors="surrogateescape")
