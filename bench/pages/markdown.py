"""A page as Markdown; plots are only in the HTML page. Pure."""

from bench.compare.page import table_lines
from bench.pages.parts import Page, Part


def render_markdown(page: Page) -> str:
    """Every sentence and table."""
    lines = [f"# {page.title}", ""]
    for sentence in page.lead:
        lines += [sentence, ""]
    for part in page.parts:
        lines += _part(part)
    return "\n".join(lines)


def _part(part: Part) -> list[str]:
    if not part.tables and part.plot is not None:
        return []  # it is a plot, and the HTML page has it
    lines = [f"## {part.title}", ""]
    for sentence in part.words:
        lines += [sentence, ""]
    for table in part.tables:
        lines += [*table_lines(table.columns, table.rows), ""]
    return lines
