"""Sphinx's settings. The pages are the Markdown files of the repository, where they lie."""

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
import pages

ROOT = Path(__file__).parent.parent.parent

project = "Foreword"
author = "the Foreword developers"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [str(page) for page in pages.linked(ROOT)]
# Folders that Sphinx would walk through for nothing.
exclude_patterns = [".*", "dist", "tests", "models", "**/__pycache__"]
source_suffix = {".md": "markdown"}
# What is reached by links alone (results, say) stands in no contents.
# And no lexer knows all of our languages, JSON with dots among them.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]

# As on GitHub: an address in angle brackets is a link, and headings have these anchors.
myst_heading_anchors = 4
myst_enable_extensions = ["strikethrough"]
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "Foreword"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["extra"]
html_theme_options = {"navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    """The contents page is the one place where the order of pages is written down."""
    app.connect("source-read", _add_contents)


def _add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += "\n" + "\n".join(_toctrees()) + "\n"


def _toctrees() -> Iterator[str]:
    for part in pages.parts(ROOT):
        yield f"```{{toctree}}\n:hidden:\n:caption: {part.title}\n"
        yield from (_entry(title, page) for title, page in part.pages)
        yield "```\n"


def _entry(title: str, page: PurePosixPath) -> str:
    name = str(page.with_suffix(""))
    return f"{title.replace('`', '')} <{'self' if name == root_doc else f'/{name}'}>"
