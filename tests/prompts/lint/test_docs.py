"""The documentation of the rules: complete, current, and true where it can be run."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import prompts
from cache.request_log import LogOptions, diagnose
from prompts.lint.docs import HEADINGS, Example, examples, explain, rules_page, sections, title
from prompts.lint.findings import Finding
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.registry import RETIRED, RULES, UnknownRuleError, rule
from prompts.lint.rule import Rule, Subject
from prompts.lint.source_file import SourceFile

FILES = {"jinja": "prompt.j2", "yaml": "template.yaml", "python": "app.py"}
RUNNABLE = [
    pytest.param(each, example, id=f"{each.code}-{index}")
    for each in RULES
    if not each.needs_tokenizer
    for index, example in enumerate(examples(each))
]


def found_in(example: Example) -> Iterable[Finding]:
    if example.language == "jsonl":
        lines = [line.encode() for line in example.text.splitlines()]
        return diagnose(lines, LogOptions()).findings
    source = SourceFile(Path(FILES[example.language]), example.text.encode())
    return Linter(LintOptions()).lint_file(source)


@pytest.mark.parametrize(("each", "example"), RUNNABLE)
def test_the_example_triggers_the_rule_and_what_to_use_instead_does_not(
    each: Rule, example: Example
) -> None:
    assert any(f.code == each.code for f in found_in(example)) == example.faulty


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.code)
def test_every_rule_is_documented_under_every_heading(each: Rule) -> None:
    texts = sections(each)
    assert tuple(texts) == HEADINGS
    assert all(texts.values())
    assert title(each).endswith((".", "…"))
    assert explain(each).startswith(f"# {each.code} {each.name}\n")


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.code)
def test_fix_safety_is_documented_as_it_is(each: Rule) -> None:
    said = sections(each)["Fix safety"].lower()
    assert ("no fix" in said) or each.fixes
    for safety in each.fixes:
        assert safety.value in said


def test_the_rules_page_is_current() -> None:
    path = Path(prompts.__file__).parent / "RULES.md"
    assert path.read_text("utf-8") == rules_page(), (
        "run: python -m prompts.lint.docs > prompts/RULES.md"
    )


@pytest.mark.parametrize(
    ("folder", "subject"),
    [("prompts/lint/python", Subject.PYTHON), ("cache/request_log", Subject.LOG)],
)
def test_a_rule_says_truly_whether_it_is_found_there(folder: str, subject: Subject) -> None:
    files = (Path(prompts.__file__).parent.parent / folder).rglob("*.py")
    emitted = {code for file in files for code in re.findall(r"FW\d{3}", file.read_text("utf-8"))}
    suppressions = {"FW903", "FW904"}
    said = {each.code for each in RULES if subject in each.subjects}
    assert said - suppressions == emitted - suppressions


def test_codes_and_names_are_unique_and_never_those_of_a_removed_rule() -> None:
    codes = [each.code for each in RULES]
    assert codes == sorted(set(codes))
    assert len({each.name for each in RULES}) == len(RULES) >= 30
    assert not set(codes) & set(RETIRED)


def test_a_rule_is_found_by_its_code_and_by_its_name() -> None:
    assert rule("FW102") is rule("clock-in-prefix")
    with pytest.raises(UnknownRuleError, match="no rule 'FW000'"):
        rule("FW000")
