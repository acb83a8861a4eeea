"""What the pages point to is there: pages, headings, files, modules, settings."""

import importlib.util
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from pydantic import BaseModel

from app.settings import Settings
from tests.docs.blocks import PAGES, ROOT, named
from tests.docs.markdown import Link, anchors, code, links

LINKED = (
    *(page for page in PAGES if page.is_file()),
    *(ROOT / path for path in ("CHANGELOG.md", "prompts/RULES.md")),
    *sorted((ROOT / "bench").glob("**/README.md")),
    *sorted((ROOT / "deploy").glob("*/README.md")),
)
_FOLDERS = "app|bench|cache|deploy|docs|examples|prompts|retrieval|samples|tests"
# A path below one of our folders: with stars, it names at least one file.
_FILE = re.compile(rf"(?:{_FOLDERS})/[\w./*-]+")
# Decisions and changes tell of what was; a run's folder is made by the run.
_OF_THEIR_TIME = {"CHANGELOG.md", "decisions.md"}
_MADE_BY_RUNS = ("bench/results/",)
_MODULE = re.compile(rf"\bpython3? -m ((?:{_FOLDERS})[\w.]*)")
_VARIABLE = re.compile(r"\bFOREWORD_[A-Z0-9_]*[A-Z0-9]\b")
# Hosts of examples, which nobody has (RFC 2606) or which lie in one's own network.
_HOST = re.compile(r"[\w-]+(\.[\w-]+)*")


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    problems = [f"{named(page)}:{link.line}: {problem}" for link, problem in _problems(page)]
    assert not problems, "\n".join(problems)


def _problems(page: Path) -> list[tuple[Link, str]]:
    return [(link, problem) for link in links(page) if (problem := problem_of(link)) is not None]


def problem_of(link: Link) -> str | None:
    """What is wrong with a link; None: nothing. Of other sites only the form is looked at."""
    parts = urlsplit(link.target)
    if parts.scheme in {"http", "https"}:
        well_formed = _HOST.fullmatch(parts.hostname or "") and " " not in link.target
        return None if well_formed else f"{link.target} is no address"
    if parts.scheme or parts.netloc:
        return f"{link.target}: only http, https and files of the repository"
    file = (link.page.parent / unquote(parts.path)).resolve() if parts.path else link.page
    if not file.is_relative_to(ROOT) or not file.is_file():
        return f"{link.target}: there is no such file"
    if parts.fragment and unquote(parts.fragment) not in anchors(file):
        return f"{link.target}: no heading there has this anchor"
    return None


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = ROOT / "docs" / "README.md"

    def broken(target: str) -> bool:
        return problem_of(Link(page=page, line=1, target=target)) is not None

    assert not broken("templates.md#fields")
    assert not broken("../README.md")
    assert not broken("https://example.org/a?b=c#d")
    assert broken("templates.md#no-such-heading")
    assert broken("no-such-page.md")
    assert broken("../../etc/passwd")
    assert broken("https://")
    assert broken("ftp://example.org/")


def test_anchors_are_githubs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `foreword lint`: a, b & c\n\n## Twice\n\n## Twice\n\n## Größe_2 + x\n")
    assert anchors(page) == {"foreword-lint-a-b--c", "twice", "twice-1", "größe_2--x"}


@pytest.mark.parametrize("page", [p for p in LINKED if p.name not in _OF_THEIR_TIME], ids=named)
def test_files_and_modules_that_are_named_exist(page: Path) -> None:
    missing = [
        f"{named(page)}:{word.line}: {word.text}"
        for word in code(page)
        if _FILE.fullmatch(word.text)
        and not word.text.startswith(_MADE_BY_RUNS)
        and not any(ROOT.glob(word.text.rstrip("/")))
    ]
    text = page.read_text("utf-8")
    missing += [
        f"{named(page)}: python -m {module}"
        for module in _MODULE.findall(text)
        if not module.endswith(".NAME") and not _is_module(module.rstrip("."))
    ]
    assert not missing, "\n".join(missing)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", [p for p in LINKED if p.name not in _OF_THEIR_TIME], ids=named)
def test_variables_that_are_named_are_read(page: Path, known_variables: frozenset[str]) -> None:
    """`FOREWORD_WIRE__…` stands for all that begin so."""
    for variable in set(_VARIABLE.findall(page.read_text("utf-8"))):
        known = any(
            name == variable or name.startswith(f"{variable}__") for name in known_variables
        )
        assert known, f"{named(page)}: nothing reads {variable}"


@pytest.fixture(scope="module")
def known_variables() -> frozenset[str]:
    """Settings, with `_FILE` for secrets, and what other programs of ours read."""
    settings = set(_settings(Settings, "FOREWORD_"))
    files = {f"{name}_FILE" for name in settings}
    listed = subprocess.run(
        ["grep", "-rhoE", "--include=*.py", "--include=*.yml", "--include=*.yaml"]
        + ["--include=Makefile", "--include=*.sh", "--include=*.Dockerfile", "FOREWORD_[A-Z0-9_]+"]
        + [
            str(ROOT / name)
            for name in ("app", "cache", "deploy", "tests/conftest.py", "tests/e2e")
        ]
        + [str(ROOT / "Makefile"), str(ROOT / "docker-compose.yml")],
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(settings | files | set(listed.stdout.split()))


def _settings(model: type[BaseModel], prefix: str) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += _settings(kind, f"{prefix}{name.upper()}__")
        else:
            found.append(f"{prefix}{name.upper()}")
    return found
