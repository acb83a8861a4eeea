"""Every case file: findings are exactly those that its `# expect:` comments name, on their lines.

A case without such a comment must be clean.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from prompts.lint.options import LintOptions
from prompts.lint.python import lint_python
from prompts.lint.registry import RULES
from prompts.lint.rule import Subject
from prompts.lint.source_file import SourceFile

_EXPECTED = re.compile(r"#\s*expect:\s*((?:FW\d{3}[,\s]*)+)")
_CLOCK = re.compile(r"(?:dt\.)?datetime\.(?:utc)?now\(\)")
_OTHER_CLOCK = re.compile(r"\b(?:today|now|time|ctime)\(\)|\{now\}")
# Of files and suppressions, in test_linter.py.
_TESTED_ELSEWHERE = {"FW901", "FW903", "FW904"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One Python file and what is wrong with it: (line, code)."""

    name: str
    code: str

    @property
    def expected(self) -> list[tuple[int, str]]:
        """What the comments say."""
        return sorted(
            (number, code)
            for number, line in enumerate(self.code.splitlines(), 1)
            for found in _EXPECTED.finditer(line)
            for code in re.findall(r"FW\d{3}", found.group(1))
        )


def cases() -> list[Case]:
    """All cases of all files."""
    return [
        Case(name=f"{path.stem}: {case['name']}", code=content["before"] + case["code"])
        for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
        for content in [yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)]
        for case in content["cases"]
    ]


def found_in(code: str) -> list[tuple[int, str]]:
    """(line, code) of the findings in Python source."""
    source = SourceFile(Path("case.py"), code.encode())
    return sorted((f.place.line, f.code) for f in lint_python(source, LintOptions()))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_findings_are_those_the_case_names(case: Case) -> None:
    assert found_in(case.code) == case.expected


def _with_fixed_time(code: str) -> str:
    return _CLOCK.sub("datetime(2024, 1, 1)", code)


@pytest.mark.parametrize(
    "case",
    [c for c in cases() if _CLOCK.search(c.code) and {code for _, code in c.expected} == {"FW102"}],
    ids=lambda case: case.name,
)
def test_the_same_code_with_a_fixed_time_is_clean(case: Case) -> None:
    fixed = _with_fixed_time(case.code)
    if _CLOCK.search(fixed) is None and not _OTHER_CLOCK.search(fixed):
        assert found_in(fixed) == []


def test_every_rule_for_python_has_a_faulty_case() -> None:
    declared = {rule.code for rule in RULES if Subject.PYTHON in rule.subjects}
    shown = {code for case in cases() for _, code in case.expected}
    assert declared - shown == _TESTED_ELSEWHERE


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in cases()]
    assert len(names) == len(set(names))


def test_more_cases_are_clean_than_faulty() -> None:
    faulty = sum(bool(case.expected) for case in cases())
    assert len(cases()) - faulty > faulty
