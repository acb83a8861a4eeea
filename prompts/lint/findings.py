"""What a lint run says: findings with a place, a cost and perhaps a fix. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Severity(StrEnum):
    """How much it matters. Errors and warnings end a run with exit code 1, notes don't."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(StrEnum):
    """Whether the fault was shown or only looks likely from what can be seen."""

    CONFIRMED = "confirmed"
    SUSPECTED = "suspected"


class FixSafety(StrEnum):
    """Safe: the model reads the same, only whitespace, newlines or canonical JSON change."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a file: lines and columns from 1, byte offsets from 0, `start <= i < stop`."""

    path: Path
    line: int
    column: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBreak:
    """Where the shared prefix ends because of the fault, and what is recomputed behind it.

    The prefix holds `token` tokens of the `of` that would be shared without the fault (`of` is the
    first token that changes for a good reason). `page_tokens` is what is lost on the GPU, after
    SGLang's page rounding, `chunk_tokens` in the tiers, after LMCache's chunk rounding. Counts are
    None where no tokenizer was given or a part's length depends on values that aren't known, and
    `estimated` where they are taken from bytes.
    """

    segment: str | None = None
    token: int | None = None
    of: int | None = None
    page_tokens: int | None = None
    chunk_tokens: int | None = None
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Bytes `start <= i < stop` of a file become `replacement`; equal ends insert."""

    start: int
    stop: int
    replacement: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Edits that remove a finding, all in the finding's file."""

    safety: FixSafety
    description: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault. `message` is one or two sentences: what is wrong, what it costs, what to do."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    place: Place
    cost: PrefixBreak | None = None
    fix: Fix | None = None


def apply_fixes(data: bytes, fixes: Sequence[Fix]) -> bytes:
    """A file's bytes with the edits applied from the end; bytes outside them are untouched.

    A fix that overlaps one already taken is left for the next round.
    """
    taken: list[Edit] = []
    for fix in fixes:
        if not any(_overlap(edit, other) for edit in fix.edits for other in taken):
            taken += fix.edits
    for edit in sorted(taken, key=lambda e: (e.start, e.stop), reverse=True):
        data = data[: edit.start] + edit.replacement + data[edit.stop :]
    return data


def _overlap(one: Edit, other: Edit) -> bool:
    if one == other:
        return True
    if one.start == other.start:
        return True
    return one.start < other.stop and other.start < one.stop
