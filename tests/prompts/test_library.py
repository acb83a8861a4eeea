"""A folder of templates: one body for each name and version."""

from pathlib import Path

import pytest

from prompts import load_templates
from prompts.errors import DuplicateTemplateError, TemplateNotFoundError

GOOD = """\
name: greeting
version: 2
variables:
  who: {type: text, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Be kind."}
  - {id: hello, role: user, volatility: turn, text: "Hello {{ who }}"}
"""


def test_two_bodies_under_one_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("kind", "brief"))
    with pytest.raises(DuplicateTemplateError, match="greeting@2 is already defined by"):
        load_templates(tmp_path)


def test_a_bare_name_finds_the_newest_version(tmp_path: Path) -> None:
    for version in (9, 10, 2):
        text = GOOD.replace("version: 2", f"version: {version}")
        (tmp_path / f"{version}.yaml").write_text(text)
    library = load_templates(tmp_path)
    assert library.find("greeting").version == 10
    assert library.find("greeting@9").version == 9
    with pytest.raises(TemplateNotFoundError, match="greeting@10"):
        library.find("greeting@3")


def test_templates_are_listed_by_name_and_version(tmp_path: Path) -> None:
    for version in (10, 9):
        (tmp_path / f"{version}.yml").write_text(GOOD.replace("version: 2", f"version: {version}"))
    (tmp_path / "other.yaml").write_text(GOOD.replace("name: greeting", "name: a"))
    (tmp_path / "notes.txt").write_text("not a template")
    assert [t.reference for t in load_templates(tmp_path)] == ["a@2", "greeting@9", "greeting@10"]


def test_a_folder_without_templates_knows_none(tmp_path: Path) -> None:
    with pytest.raises(TemplateNotFoundError, match="there are: none"):
        load_templates(tmp_path).find("greeting")
