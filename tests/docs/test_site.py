"""The site: every page has its place in the contents, and it is built without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site.pages import CONTENTS, linked, parts
from tests.docs.blocks import ROOT

# What a page of the site may load: its own files.
_LOADED = re.compile(
    r"<(?:script|link|img|iframe|source|object)\b[^>]*?\b(?:src|href|data|srcset)=\"([^\"]+)\"",
    re.IGNORECASE,
)
_IMPORTED = re.compile(r"(?:@import|url\()\s*[\"']?(https?:)?//")


def test_every_page_of_docs_stands_once_in_the_contents() -> None:
    listed = [str(page) for part in parts(ROOT) for _, page in part.pages]
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")}
    assert len(listed) == len(set(listed))
    missing = pages - {str(CONTENTS)} - set(listed)
    assert not missing, f"docs/README.md doesn't list {', '.join(sorted(missing))}"


def test_pages_that_are_linked_are_part_of_the_site() -> None:
    pages = {str(page) for page in linked(ROOT)}
    assert {"README.md", "prompts/RULES.md", "docs/tiers.md", "CONTRIBUTING.md"} <= pages


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    """What `make docs` runs."""
    site = tmp_path / "site"
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*build, "-b", "html", "-c", "docs/site", "-d", tmp_path / "trees", ".", site],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        outside = [
            target
            for target in _LOADED.findall(page.read_text("utf-8"))
            if target.startswith(("http:", "https:", "//"))
        ]
        assert not outside, f"{page.name} loads {outside}"
    for sheet in site.rglob("*.css"):
        assert not _IMPORTED.search(sheet.read_text("utf-8")), sheet.name
    assert "README.html" in (site / "index.html").read_text("utf-8")
    start = (site / "README.html").read_text("utf-8")
    for part in parts(ROOT):
        assert part.title.replace("'", "&#x27;") in start or part.title in start
