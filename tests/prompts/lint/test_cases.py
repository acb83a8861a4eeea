"""The cases of every rule: what it finds, what it leaves alone, and what its fix makes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from prompts.lint.findings import FixSafety
from prompts.lint.fixing import fix_file
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.registry import RULES
from prompts.lint.rule import Subject
from prompts.lint.source_file import SourceFile

CASES = Path(__file__).parent / "cases"
# Rules that need a tokenizer, several files or a log have tests of their own.
ELSEWHERE = {"FW301", "FW302", "FW303", "FW907"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """`expect` holds the file's text that each finding of the rule marks, in order."""

    code: str
    name: str
    text: str
    expect: list[str]
    file: str = "prompt.j2"
    fixed: str | None = None
    unsafe: bool = False

    @property
    def source(self) -> SourceFile:
        return SourceFile(Path(self.file), self.text.encode())


def cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("FW*.yaml")):
        for fields in yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader):
            yield Case(code=path.stem, **fields)


INCLUDED = {
    "here.j2": "Be brief.\n",
    "dated.j2": "Today is {{ now() }}.\n",
    "macros.j2": "{% macro head() %}At {{ now() }}{% endmacro %}"
    "{% macro tail() %}Bye{% endmacro %}",
    "circle.j2": "{% include 'circle.j2' %}Be kind.\n",
    "bad.j2": "{% if %}",
}


def files(path: Path, name: str) -> SourceFile | None:
    return SourceFile(Path(name), INCLUDED[name].encode()) if name in INCLUDED else None


ALL = list(cases())
named = pytest.mark.parametrize("case", ALL, ids=[f"{c.code}-{c.name}" for c in ALL])


@pytest.fixture(scope="module")
def linter() -> Linter:
    return Linter(LintOptions(), included=files)


@named
def test_the_rule_finds_what_it_should_and_nothing_else(case: Case, linter: Linter) -> None:
    data = case.source.data
    found = [f for f in linter.lint_file(case.source) if f.code == case.code]
    assert [data[f.place.start : f.place.stop].decode() for f in found] == case.expect


@named
def test_a_clean_case_is_clean_for_every_rule(case: Case, linter: Linter) -> None:
    if not case.expect:
        assert linter.lint_file(case.source) == ()


@pytest.mark.parametrize(
    "case", [c for c in ALL if c.fixed is not None], ids=lambda c: f"{c.code}-{c.name}"
)
def test_the_fix_gives_these_bytes_and_makes_no_new_fault(case: Case, linter: Linter) -> None:
    done = fix_file(case.source, linter.lint_file, unsafe=case.unsafe)
    assert done.source.data.decode() == case.fixed
    assert done.fixed > 0
    assert not [f for f in linter.lint_file(done.source) if f.code == case.code]
    before = {f.code for f in linter.lint_file(case.source)}
    assert {f.code for f in linter.lint_file(done.source)} <= before
    again = fix_file(done.source, linter.lint_file, unsafe=case.unsafe)
    assert again.source.data == done.source.data


def test_every_rule_has_cases_and_more_of_them_pass_than_fail() -> None:
    with_cases = {case.code for case in ALL}
    for rule in RULES:
        in_files = {Subject.TEMPLATE, Subject.PROMPT_FILE} & set(rule.subjects)
        assert (rule.code in with_cases) == (bool(in_files) and rule.code not in ELSEWHERE)
    for code in with_cases:
        mine = [case for case in ALL if case.code == code]
        assert any(case.expect for case in mine)
        assert any(not case.expect for case in mine)
    passing = sum(not case.expect for case in ALL)
    assert passing > len(ALL) - passing


def test_a_fix_is_as_safe_as_its_rule_says(linter: Linter) -> None:
    safeties: dict[str, set[FixSafety]] = {}
    for case in ALL:
        for finding in linter.lint_file(case.source):
            if finding.fix is not None:
                safeties.setdefault(finding.code, set()).add(finding.fix.safety)
    documented = {rule.code: set(rule.fixes) for rule in RULES}
    assert all(found <= documented[code] for code, found in safeties.items())
