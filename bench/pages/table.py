"""A table as plain values, from which both forms of a page make theirs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells as text, numbers right-aligned where the column says so by a trailing `:`."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
