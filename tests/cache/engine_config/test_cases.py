"""The cases of every rule for engine configurations: what it finds and what it leaves alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cache.engine_config import lint_configs
from prompts.lint.registry import RULES
from prompts.lint.rule import Subject
from prompts.lint.source_file import SourceFile

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True, kw_only=True)
class Case:
    """`expect` holds the text that each finding of the rule marks, in order.

    One text (`text`, in `file`) or several files (`files`).
    """

    code: str
    name: str
    expect: list[str]
    text: str = ""
    file: str = "start.sh"
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> list[SourceFile]:
        files = self.files or {self.file: self.text}
        return [SourceFile(Path(name), text.encode()) for name, text in files.items()]


def cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("FW*.yaml")):
        for fields in yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader):
            yield Case(code=path.stem, **fields)


ALL = list(cases())
named = pytest.mark.parametrize("case", ALL, ids=[f"{c.code}-{c.name}" for c in ALL])


@named
def test_the_rule_finds_what_it_should_and_nothing_else(case: Case) -> None:
    data = {source.path: source.data for source in case.sources}
    found = [f for f in lint_configs(case.sources).findings if f.code == case.code]
    marked = [data[f.place.path][f.place.start : f.place.stop].decode() for f in found]
    assert marked == case.expect


@named
def test_a_clean_case_is_clean_for_every_rule(case: Case) -> None:
    if not case.expect:
        assert lint_configs(case.sources).findings == ()


def test_every_rule_has_cases_and_more_of_them_pass_than_fail() -> None:
    judged = {rule.code for rule in RULES if Subject.ENGINE_CONFIG in rule.subjects}
    assert {case.code for case in ALL} == judged
    for code in judged:
        mine = [case for case in ALL if case.code == code]
        assert any(case.expect for case in mine)
        assert any(not case.expect for case in mine)
    passing = sum(not case.expect for case in ALL)
    assert passing > len(ALL) - passing
