"""A report as one self-contained HTML page with plots. Pure, but for reading the page's own files.

It asks nothing of any server: style, script, figures and plotly are in it, and its
Content-Security-Policy forbids all requests and every script but its own two. Each plot has a table
with the same figures beside it, so that nothing is told by a plot alone; without scripts the tables
remain.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from cache.errors import ReportPageError
from cache.plot_layout import Figure
from cache.plots import figures
from cache.report_html_parts import escape as text
from cache.report_html_parts import footer_html, header_html, section_html, words_html
from cache.report_sections import period, sections
from cache.report_values import Report

_ASSETS = Path(__file__).parent / "report_assets"


def render_html(report: Report) -> str:
    """The report as one page of about 5 MB, nearly all of it plotly.

    Raises:
        ReportPageError: plotly's script isn't installed.
    """
    plots = figures(report)
    found = sections(report)
    body = [
        header_html(report, found),
        '<main id="content">\n',
        *(section_html(section, has_plot=section.plot in plots) for section in found[1:]),
        words_html(),
        "</main>\n",
        footer_html(report),
    ]
    return complete_page(f"Foreword report, {period(report)}", "".join(body), plots)


def complete_page(title: str, body: str, plots: Mapping[str, Figure]) -> str:
    """A page with everything in it.

    Args:
        body: HTML; each `.plot` in it names its figure by `data-figure`, and `#theme` is a button.

    Raises:
        ReportPageError: plotly's script isn't installed.
    """
    scripts = _plotly(), (_ASSETS / "page.js").read_text("utf-8")
    style = (_ASSETS / "page.css").read_text("utf-8")
    data = f'<script type="application/json" id="figures">{_data(plots)}</script>\n'
    running = "".join(f"<script>{script}</script>\n" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n{body}{data}{running}</body>\n</html>\n"
    )


def policy(scripts: tuple[str, ...]) -> str:
    """A policy under which nothing is fetched and only these scripts run."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        "style-src 'unsafe-inline'; script-src " + " ".join(f"'sha256-{h}'" for h in hashes)
    )


def _plotly() -> str:
    """plotly's script from its package; the package itself is not imported, which is slow."""
    spec = find_spec("plotly")
    folder = Path(spec.origin).parent if spec and spec.origin else Path("plotly")
    path = folder / "package_data" / "plotly.min.js"
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ReportPageError(path=path) from error


def _data(plots: Mapping[str, Figure]) -> str:
    """JSON that can stand in a script element: no `<` can end it or begin a comment."""
    return json.dumps(plots, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
