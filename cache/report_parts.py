"""What the readable forms of a report are made of: sections of sentences, tables and plots. Pure.

One content, three forms: `cache.report_text`, `cache.report_markdown` and `cache.report_html` lay
out the same sections. Names that clients choose (templates, tenants, collections) are `Label`s all
the way, so that each form can render them harmless; everything else is our own text.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Label:
    """A name that may come from a client; None is a request without one.

    `longest` is how many terminal columns of it are shown.
    """

    text: str | None
    longest: int = 80

    @property
    def clean(self) -> str:
        """One printable line of bounded length: no control, bidi or line-breaking characters."""
        if self.text is None:
            return "(none)"
        return cut(clean(self.text), self.longest) or "(empty)"


Inline = str | Label
Sentence = tuple[Inline, ...]


class Align(StrEnum):
    """How a column stands: names and words to the left, figures to the right."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column."""

    name: str
    align: Align = Align.RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells, each as long as `columns`; `caption` says what the table shows.

    A table of `detail` is left out of the text for terminals.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Inline]]
    has_total: bool = False
    detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One heading with what belongs below it; `plot` names the plot of `cache.plots` beside it.

    `short` is the title in a list of links, where the whole one is too long.
    """

    id: str
    title: str
    short: str | None = None
    lead: Sequence[Sentence] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Sentence] = ()
    plot: str | None = None


def clean(text: str) -> str:
    """The text with every character that isn't printable replaced, so that none can act."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def cut(text: str, width: int) -> str:
    """At most `width` terminal columns of a line, its end marked where it was cut."""
    if display_width(text) <= width:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + "…"


def display_width(text: str) -> int:
    """Columns that a line takes in a terminal: East Asian wide characters take two."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def plain(sentence: Sentence) -> str:
    """A sentence as one line of plain text."""
    return "".join(part.clean if isinstance(part, Label) else part for part in sentence)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
