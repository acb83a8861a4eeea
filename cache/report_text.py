"""A report as aligned plain text for people. Pure."""

import textwrap
from collections.abc import Iterable, Sequence

from cache.report_parts import Align, Column, Inline, Label, Section, Sentence, Table, cut, plain
from cache.report_parts import display_width as width
from cache.report_sections import period, sections
from cache.report_values import Report

TEXT_WIDTH = 100


def render_text(report: Report) -> str:
    """The report as plain text, at most 100 columns wide, ending with a newline.

    Labels are cut to keep to it, down to 4 characters; only many groups can still exceed it.
    """
    parts = [[f"Foreword report, {period(report)}"], *map(_section, sections(report))]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _section(section: Section) -> list[str]:
    heading = [] if section.id == "outcome" else [section.title, "-" * width(section.title)]
    blocks = [
        _wrapped(section.lead),
        *(_table(table) for table in section.tables if not table.detail),
        _wrapped(section.notes),
    ]
    lines = list(heading)
    for block in blocks:
        if block and len(lines) > len(heading):
            lines.append("")
        lines += block
    return lines


def _table(table: Table) -> list[str]:
    """Figures are never cut; names and words are, to keep the line within its width."""
    cells = [[column.name for column in table.columns], *(map(_cell, row) for row in table.rows)]
    rows = [list(row) for row in cells]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    left = [i for i, column in enumerate(table.columns) if column.align is Align.LEFT]
    _fit(widths, left)
    return [
        "  ".join(
            _pad(cell, columns, table.columns[i])
            for i, (cell, columns) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _fit(widths: list[int], left: Sequence[int]) -> None:
    """Narrow the widest of the left-aligned columns until the line fits, to 4 at the least."""
    excess = sum(widths) + 2 * (len(widths) - 1) - TEXT_WIDTH
    while excess > 0 and left:
        widest = max(left, key=lambda i: widths[i])
        if widths[widest] <= 4:
            return
        widths[widest] -= 1
        excess -= 1


def _pad(text: str, columns: int, column: Column) -> str:
    if column.align is Align.RIGHT:
        return " " * (columns - width(text)) + text
    shown = cut(text, columns)
    return shown + " " * (columns - width(shown))


def _cell(cell: Inline) -> str:
    return cell.clean if isinstance(cell, Label) else cell


def _wrapped(sentences: Iterable[Sentence]) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(plain(sentence), TEXT_WIDTH)]
