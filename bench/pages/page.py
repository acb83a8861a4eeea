"""A page as one HTML file that asks nothing of any server. Pure, but for reading its own assets."""

import re

from bench.pages.parts import Page, Part
from bench.pages.table import Table
from cache.plot_layout import Figure
from cache.report_html import complete_page
from cache.report_html_parts import escape

_MARKED = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")
_LONG_TABLE = 26


def render_html(page: Page) -> str:
    """The page, of about 5 MB, nearly all of it plotly.

    Raises:
        ReportPageError: plotly's script isn't installed.
    """
    plots: dict[str, Figure] = {p.id: p.plot for p in page.parts if p.plot is not None}
    lead = "".join(f"<p>{_words(sentence)}</p>" for sentence in page.lead)
    links = "".join(f'<li><a href="#{p.id}">{escape(p.title)}</a></li>' for p in page.parts)
    body = (
        '<a class="skip" href="#content">Skip to the figures</a>\n<header>\n<div class="top"><div>'
        f"<h1>{escape(page.title)}</h1>\n"
        '</div><button type="button" id="theme" hidden>Dark</button></div>\n'
        f'<div class="headline">{lead}</div>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n</header>\n<main id="content">\n'
        f"{''.join(map(_section, page.parts))}</main>\n<footer>This page is complete: it asks "
        "nothing of any server.<noscript> Plots need JavaScript.</noscript></footer>\n"
    )
    return complete_page(page.title, body, plots)


def _section(part: Part) -> str:
    words = "".join(f"<p>{_words(sentence)}</p>\n" for sentence in part.words)
    figure = ""
    if part.plot is not None:
        label = escape(f"Plot: {part.title}")
        figure = (
            f'<figure><div class="plot" data-figure="{part.id}" role="img" '
            f'aria-label="{label}"></div></figure>'
        )
    elif not part.tables and part.id in ("curve", "ttft", "time", "loss"):
        words += "<p><em>Unknown: no run tells it.</em></p>\n"
    tables = "".join(map(_table, part.tables))
    return (
        f'<section id="{part.id}" aria-labelledby="{part.id}-title">\n'
        f'<h2 id="{part.id}-title">{escape(part.title)}</h2>\n{words}'
        f'<div class="body">{figure}<div>{tables}</div></div>\n</section>\n'
    )


def _table(table: Table) -> str:
    numeric = [column.endswith(":") for column in table.columns]
    head = "".join(
        f'<th scope="col"{_kind(is_number)}>{_words(column.removesuffix(":"))}</th>'
        for column, is_number in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_kind(is_number, cell)}>{_cell(cell, column)}</td>"
            for cell, is_number, column in zip(row, numeric, table.columns, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    long = " long" if len(table.rows) > _LONG_TABLE else ""
    return (
        f'<div class="scroll{long}"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n"
    )


def _cell(cell: str, column: str) -> str:
    """A verdict stays on one line, whatever stands beside it."""
    told = _words(cell)
    return told.replace(" ", "&nbsp;") if column == "verdict" else told


def _kind(is_number: bool, cell: str = "") -> str:
    names = " ".join(["num"] * is_number + ["unknown"] * (cell == "unknown"))
    return f' class="{names}"' if names else ""


def _words(sentence: str) -> str:
    """Text with its bold and code marks."""
    return _MARKED.sub(
        lambda found: f"<strong>{found[1]}</strong>" if found[1] else f"<code>{found[2]}</code>",
        escape(sentence),
    )
