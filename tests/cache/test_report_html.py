"""The report's page and Markdown: complete by themselves, and harmless whatever names hold."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from cache.alerts import Budgets
from cache.flame import FlameNode
from cache.prefill_speed import PrefillSpeed
from cache.report import Prices, Report, load_report
from cache.report_html import render_html
from cache.report_markdown import code, render_markdown
from cache.report_parts import clean
from cache.report_text import render_text
from cache.rows import LedgerRow, RequestStatus, insert_rows

RowMaker = Callable[..., LedgerRow]
FileMaker = Callable[[], sa.Engine]
NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '<a href="https://evil.example/">click</a>',
    "https://evil.example/?q=%{y}",
    "<!--<script>",
    "[x](javascript:alert(1))",
    "![x](https://evil.example/a.png)",
    "`` ` ```",
    "`",
    "a|b\\|c\\",
    "@all #1 **bold** &lt;b&gt;",
    "\x1b[31mred\x1b]8;;http://evil.example\x07link",
    "\u202egnp.exe\u2028\u0000",
    "--gpu",
    "%{customdata}",
    "$\\unicode{1}$",
    "",
)


def hostile_rows() -> list[LedgerRow]:
    """A request for each name, which stands wherever a client can choose one."""
    figures = {"prompt_tokens": 160, "cached_tokens": 64, "ideal_tokens": 128, "new_tokens": 32}
    return [
        LedgerRow(
            request_id=f"r{i}", at=NOW, status=RequestStatus.OK, tenant=name, template=name,
            collection=name, replica=name, mode=name, ttft_s=0.1 + i, lost={"evicted": 64},
            verdict="evicted", **figures,
        )
        for i, name in enumerate(HOSTILE)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(open_file: FileMaker) -> Report:
    """A report in which every name that a client can choose is an attack."""
    with open_file().begin() as connection:
        insert_rows(connection, hostile_rows())
        return load_report(
            connection,
            now=NOW,
            budgets=Budgets.parse(["0.9"]),
            flame=FlameNode(
                label="", tokens=0, requests=2, served_tokens=0, cached_tokens=None,
                children=tuple(
                    FlameNode(label=name, tokens=16, requests=1, served_tokens=16 + i,
                              cached_tokens=16, known_tokens=16)
                    for i, name in enumerate(HOSTILE)
                ),
            ),
            prices=Prices(speed=PrefillSpeed(tokens_per_s=1000.0, tokens=5000)),
        )  # fmt: skip


@pytest.fixture(scope="module")
def page(hostile: Report) -> LexborHTMLParser:
    return LexborHTMLParser(render_html(hostile))


def test_the_page_has_its_own_two_scripts_and_no_others(page: LexborHTMLParser) -> None:
    kinds = [node.attributes.get("type") for node in page.css("script")]
    assert kinds == ["application/json", None, None]
    assert "plotly.js" in page.css("script")[1].text()[:200]


def test_no_name_makes_an_element_or_an_attribute(page: LexborHTMLParser) -> None:
    assert not page.css("img, svg, iframe, object, embed, link, base, form, input")
    for node in page.css("*"):
        assert not [name for name in node.attributes if name.startswith("on")]
    assert {link.attributes["href"][:1] for link in page.css("a")} == {"#"}


def test_the_page_asks_nothing_of_any_server(hostile: Report, page: LexborHTMLParser) -> None:
    policy = page.css_first("meta[http-equiv=Content-Security-Policy]").attributes["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert not page.css("[src], [srcset], [data], [poster], [action]")
    own = render_html(hostile)
    for script in page.css("script"):
        own = own.replace(script.text(), "")
    style = page.css_first("style").text()
    assert "url(" not in style
    assert "@import" not in style
    left = own.replace(style, "")
    found = [url for url in re.findall(r"https?://\S*", left) if "//evi" not in url]
    assert not found


def test_every_name_is_shown_as_it_was_sent_but_for_what_cannot_be_printed(
    page: LexborHTMLParser,
) -> None:
    shown = {node.text() for node in page.css("th code, td code")}
    assert {clean(name) for name in HOSTILE if name} | {"(empty)"} <= shown


def test_every_plot_has_a_figure_a_table_and_a_label(page: LexborHTMLParser) -> None:
    figures = figures_of(page)
    plots = page.css(".plot")
    assert {plot.attributes["data-figure"] for plot in plots} <= set(figures)
    assert {"waterfall", "groups", "time", "ttft", "tiers", "flame", "tenants"} <= {
        plot.attributes["data-figure"] for plot in plots
    }
    for plot in plots:
        assert plot.attributes["role"] == "img"
        assert plot.attributes["aria-label"]
        section = plot.parent
        while section is not None and section.tag != "section":
            section = section.parent
        assert section is not None
        assert section.css("table caption")


def test_figures_hold_no_html_but_our_own(page: LexborHTMLParser) -> None:
    ours = re.compile(r"</?b>|<br>|<extra></extra>")
    for text in texts(figures_of(page)):
        assert "<" not in ours.sub("", text)


def test_tables_have_captions_and_headers(page: LexborHTMLParser) -> None:
    tables = page.css("table")
    assert tables
    for table in tables:
        assert table.css_first("caption").text()
        assert table.css("thead th[scope=col]")
        assert table.css("tbody th[scope=row]")


def test_the_page_is_little_more_than_plotly(hostile: Report, page: LexborHTMLParser) -> None:
    plotly = page.css("script")[1].text()
    assert len(render_html(hostile)) - len(plotly) < 300_000


def test_ids_are_unique_and_links_lead_to_them(page: LexborHTMLParser) -> None:
    ids = [node.attributes["id"] for node in page.css("[id]")]
    assert len(ids) == len(set(ids))
    for link in page.css("a"):
        assert (link.attributes["href"] or "")[1:] in ids


@pytest.mark.slow
def test_ten_thousand_templates_make_a_page_of_the_first_and_the_others(
    open_file: FileMaker, make_row: RowMaker
) -> None:
    names = tuple(f"t{i}@1" for i in range(10_000))
    rows = [make_row(template=name, prompt_tokens=100, cached_tokens=50) for name in names]
    with open_file().begin() as connection:
        insert_rows(connection, rows)
        report = load_report(connection, now=NOW, budgets=Budgets.parse(["0.9"]))
    assert report.groups.rest is not None
    assert len(report.groups.groups) == 20
    page = render_html(report)
    assert len(page) - 4_900_000 < 300_000
    assert len(render_text(report)) < 60_000
    assert "more templates" in render_text(report)


@pytest.mark.parametrize("changes", [{}, {"prompt_tokens": 10, "cached_tokens": 0, "ttft_s": 0.0}])
def test_one_request_makes_every_form(
    open_file: FileMaker, make_row: RowMaker, changes: dict[str, object]
) -> None:
    with open_file().begin() as connection:
        insert_rows(connection, [make_row(**changes)])
        report = load_report(connection, now=NOW)
    page = LexborHTMLParser(render_html(report))
    assert "unknown" in page.css_first("main").text()
    assert figures_of(page)
    assert "unknown" in render_markdown(report)


def test_without_requests_the_page_says_so(open_file: FileMaker) -> None:
    with open_file().begin() as connection:
        page = LexborHTMLParser(render_html(load_report(connection, now=NOW)))
    assert "No request ended in this time." in page.css_first("header").text()
    assert not page.css(".plot")


def test_markdown_shows_names_as_code_and_nothing_else(hostile: Report) -> None:
    made = render_markdown(hostile)
    tokens = MarkdownIt("commonmark").enable(["table"]).parse(made)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "em_open", "fence"}
    shown = {child.content for child in inline if child.type == "code_inline"}
    assert {clean(name) for name in HOSTILE if name and "\\" not in name} <= shown


@pytest.mark.parametrize("text", ["a", "`", "``a`", " a ", "a|b", "*a*", "<b>", "a`b``c"])
def test_a_code_span_gives_its_text_back(text: str) -> None:
    html = MarkdownIt("commonmark").enable(["table"]).render(f"| a |\n| --- |\n| {code(text)} |\n")
    cell = LexborHTMLParser(html).css_first("td code")
    assert cell.text() == text


def test_the_terminal_gets_no_control_characters(hostile: Report) -> None:
    assert all(line.isprintable() for line in render_text(hostile).split("\n"))


def figures_of(page: LexborHTMLParser) -> dict[str, Any]:
    figures = json.loads(page.css_first("#figures").text())
    assert isinstance(figures, dict)
    return figures


def texts(value: object) -> Iterator[str]:
    """Every string within a figure."""
    match value:
        case str():
            yield value
        case dict():
            for part in value.values():
                yield from texts(part)
        case list():
            for part in value:
                yield from texts(part)
