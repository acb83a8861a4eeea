"""A report as Markdown, for a pull request or a wiki. Pure.

Names from clients stand in code spans, in which neither links, mentions, HTML nor emphasis work.
"""

import re
from collections.abc import Iterable, Sequence

from cache.report_parts import Align, Column, Inline, Label, Section, Sentence, Table
from cache.report_sections import period, sections
from cache.report_values import Report


def render_markdown(report: Report) -> str:
    """The report in GitHub's Markdown, ending with a newline."""
    blocks = [f"# Foreword report, {period(report)}"]
    for section in sections(report):
        blocks += _section(section)
    return "\n\n".join(blocks) + "\n"


def code(text: str) -> str:
    """A code span that nothing in the text can end, also within a table."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _section(section: Section) -> list[str]:
    heading = [] if section.id == "outcome" else [f"## {section.title}"]
    is_list = section.id == "alerts"
    lead = [_sentence(sentence) for sentence in section.lead]
    blocks = ["\n".join(f"- {line}" for line in lead)] if is_list and lead else lead
    tables = [f"**{table.caption}**\n\n{_table(table)}" for table in section.tables]
    return [*heading, *blocks, *tables, *_notes(section.notes)]


def _notes(notes: Iterable[Sentence]) -> list[str]:
    lines = [_sentence(note) for note in notes]
    return ["\n".join(f"> {line}  " for line in lines)] if lines else []


def _table(table: Table) -> str:
    head = _line([column.name for column in table.columns])
    marks = _line(["---" if column.align is Align.LEFT else "---:" for column in table.columns])
    rows = [_line([_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)])
            for row in table.rows]  # fmt: skip
    return "\n".join([head, marks, *rows])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Inline, column: Column) -> str:
    return code(cell.clean) if isinstance(cell, Label) else _own(cell)


def _sentence(sentence: Sentence) -> str:
    return "".join(code(part.clean) if isinstance(part, Label) else _own(part) for part in sentence)


def _own(text: str) -> str:
    """Our own words; they hold nothing to escape but `<`, as in "< 0.1 %"."""
    return text.replace("<", "&lt;")
