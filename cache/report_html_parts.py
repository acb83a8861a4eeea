"""The pieces of the report's HTML page. Pure; all text goes through `escape`."""

import html
from collections.abc import Sequence

from cache.report_cards import Card, cards
from cache.report_numbers import UNKNOWN, moment
from cache.report_parts import Align, Column, Inline, Label, Section, Sentence, Table
from cache.report_sections import DEFINITIONS, period
from cache.report_tables import TREND
from cache.report_values import Report

# Sections whose plot and table stand side by side on a wide screen.
_SPLIT = frozenset({"waterfall", "ttft"})
# Columns of shares, whose cells show them as a bar too.
_METERS = frozenset({"hit rate", "ideal", "of prompt", "re-used"})
# Longer tables scroll.
_LONG = 26
_SCALE = ("0 %", "", "", "", "", "100 %")


def escape(text: str) -> str:
    """Text as it can stand between tags and in quoted attributes."""
    return html.escape(text, quote=True)


def header_html(report: Report, found: Sequence[Section]) -> str:
    """Title, time, the outcome in sentences, the cards, and links to the sections."""
    links = "".join(
        f'<li><a href="#{s.id}">{escape(s.short or s.title)}</a></li>' for s in found[1:]
    )
    lead = "".join(f"<p>{sentence_html(sentence)}</p>" for sentence in found[0].lead)
    return (
        '<a class="skip" href="#content">Skip to the figures</a>\n<header>\n<div class="top"><div>'
        f'<h1>Prefix re-use</h1>\n<p class="period">Foreword report, {escape(period(report))}</p>'
        '</div><button type="button" id="theme" hidden>Dark</button></div>\n'
        f'<div class="headline">{lead}</div>\n'
        f'<dl class="cards">{"".join(map(_card, cards(report)))}</dl>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n</header>\n'
    )


def section_html(section: Section, *, has_plot: bool) -> str:
    """A section with its plot, if it has one, and its tables beside or below it."""
    figure = _figure(section) if has_plot else ""
    tables = "".join(map(_table, section.tables))
    if len(section.tables) > 1 and section.id == "time":
        tables = f'<div class="pair">{tables}</div>'
    split = " split" if has_plot and section.id in _SPLIT else ""
    calm = ' class="calm"' if section.id == "alerts" and not section.lead else ""
    notes = "".join(f"<p>{sentence_html(note)}</p>" for note in section.notes)
    return (
        f'<section id="{section.id}"{calm} aria-labelledby="{section.id}-title">\n'
        f'<h2 id="{section.id}-title">{escape(section.title)}</h2>\n{_lead(section)}'
        f'<div class="body{split}">{figure}<div>{tables}</div></div>\n'
        + (f'<div class="notes">{notes}</div>\n' if notes else "")
        + "</section>\n"
    )


def words_html() -> str:
    """What the words mean."""
    words = "".join(
        f"<dt>{escape(word)}</dt><dd>{sentence_html(meaning)}</dd>"
        for word, meaning in DEFINITIONS.items()
    )
    return (
        '<details id="words"><summary>What the words mean</summary>'
        f'<dl class="words">{words}</dl></details>\n'
    )


def footer_html(report: Report) -> str:
    """When it was made, and that it needs nothing else."""
    return (
        f"<footer>Made {escape(moment(report.made_at))}. This page is complete: it asks nothing of "
        "any server.<noscript> Plots need JavaScript; the tables have the same figures.</noscript>"
        "</footer>\n"
    )


def sentence_html(sentence: Sentence) -> str:
    """A sentence with its labels set apart."""
    return "".join(map(_inline, sentence))


def _inline(part: Inline) -> str:
    return f"<code>{escape(part.clean)}</code>" if isinstance(part, Label) else escape(part)


def _card(card: Card) -> str:
    gauge = ""
    if card.gauge is not None:
        value, mark = card.gauge
        ideal = "" if mark is None else f'<span class="mark" style="--m:{100 * mark:.1f}%"></span>'
        gauge = (
            f'<div class="gauge" aria-hidden="true" style="--v:{100 * value:.1f}%">'
            f'<span class="fill"></span>{ideal}</div>'
        )
    return (
        f'<div class="card"><dt>{escape(card.name)}</dt><dd><div class="value">{escape(card.value)}'
        f'</div>{gauge}<div class="detail">{sentence_html(card.detail)}</div></dd></div>'
    )


def _lead(section: Section) -> str:
    if section.id == "alerts" and section.lead:
        items = "".join(f"<li>{sentence_html(sentence)}</li>" for sentence in section.lead)
        return f"<ul>{items}</ul>\n"
    return "".join(f"<p>{sentence_html(sentence)}</p>\n" for sentence in section.lead)


def _figure(section: Section) -> str:
    label = escape(f"Plot: {section.title}. The table beside it has the same figures.")
    scale = _scale() if section.plot == "flame" else ""
    return (
        f'<figure>{scale}<div class="plot" data-figure="{section.plot}" role="img" '
        f'aria-label="{label}"></div></figure>'
    )


def _scale() -> str:
    """What the colours of the flame mean."""
    steps = "".join(f'<i style="background:var(--reuse-{i})"></i>' for i in range(len(_SCALE)))
    return (
        f'<ul class="scale"><li>re-used: 0 % {steps} 100 %</li>'
        '<li><i style="background:var(--unknown)"></i> unknown</li>'
        '<li><i class="parted"></i> ◆ prompts part here</li><li>width: tokens served</li></ul>'
    )


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_num(column)}>{escape(column.name)}</th>' for column in table.columns
    )
    last = len(table.rows) - 1
    long = " long" if len(table.rows) > _LONG else ""
    rows = "".join(
        _row(row, table.columns, is_total=table.has_total and i == last)
        for i, row in enumerate(table.rows)
    )
    return (
        f'<div class="scroll{long}" tabindex="0" role="group" '
        f'aria-label="{escape(table.caption)}"><table>'
        f"<caption>{escape(table.caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _row(row: Sequence[Inline], columns: Sequence[Column], *, is_total: bool) -> str:
    cells = "".join(
        f'<th scope="row">{_inline(cell)}</th>'
        if i == 0 and columns[0].align is Align.LEFT
        else _cell(cell, columns[i])
        for i, cell in enumerate(row)
    )
    return f'<tr class="total">{cells}</tr>' if is_total else f"<tr>{cells}</tr>"


def _cell(cell: Inline, column: Column) -> str:
    if column.name == TREND:
        return f'<td class="spark" aria-hidden="true">{_inline(cell)}</td>'
    if isinstance(cell, Label) or column.align is Align.LEFT:
        return f"<td>{_inline(cell)}</td>"
    if cell == UNKNOWN:
        return f'<td class="num unknown">{UNKNOWN}</td>'
    if column.name in _METERS and cell.endswith(" %") and cell[:-2].replace(".", "").isdigit():
        return f'<td class="num meter" style="--v:{cell[:-2]}%">{escape(cell)}</td>'
    return f'<td class="num">{escape(cell)}</td>'


def _num(column: Column) -> str:
    return ' class="num"' if column.align is Align.RIGHT else ""
