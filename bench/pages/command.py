"""`foreword bench report`: pages anew from runs' and replays' raw lines."""

import sys
from pathlib import Path

import click

from bench.compare.arms import ANY_PHASE
from bench.errors import BenchError
from bench.pages.found import find
from bench.pages.markdown import render_markdown
from bench.pages.page import render_html
from bench.pages.parts import page_of


@click.command()
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option("--title", default=None, help="Of the page.  [default: the first folder's name]")
@click.option(
    "--phase",
    type=click.Choice(["warm", "cold", ANY_PHASE]),
    default="warm",
    show_default=True,
    help="Which requests count.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where report.md and report.html go.  [default: the first folder]",
)
@click.option("--no-html", is_flag=True, help="Only the Markdown; the HTML page has 5 MB.")
def report(
    *, folders: tuple[Path, ...], title: str | None, phase: str, out: Path | None, no_html: bool
) -> None:
    """Write report.md and report.html of all runs, comparisons and replays below FOLDERS."""
    try:
        page = page_of(title or folders[0].resolve().name, find(folders), phase=phase)
    except BenchError as error:
        click.echo(f"foreword bench report: {error}", err=True)
        sys.exit(2)
    place = out or folders[0]
    place.mkdir(parents=True, exist_ok=True)
    markdown = render_markdown(page)
    (place / "report.md").write_text(markdown)
    click.echo(str(place / "report.md"))
    if not no_html:
        (place / "report.html").write_text(render_html(page))
        click.echo(str(place / "report.html"))
