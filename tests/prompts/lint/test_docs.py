"""The documentation of the rules: complete, current, and true where it can be run."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import prompts
from cache.engine_config import lint_configs
from cache.request_log import LogOptions, diagnose
from prompts import PromptTokenizer, load_tokenizer
from prompts.lint.docs import HEADINGS, Example, examples, explain, rules_page, sections, title
from prompts.lint.findings import Finding
from prompts.lint.linter import Linter
from prompts.lint.options import PAGE_SIZE, LintOptions
from prompts.lint.registry import RETIRED, RULES, UnknownRuleError, rule
from prompts.lint.rule import Rule, Subject
from prompts.lint.source_file import SourceFile
from tests.tokenizer_folders import write_tokenizer

FILES = {"jinja": "prompt.j2", "yaml": "template.yaml", "python": "app.py"}
CONFIGS = {
    "conf": "redis.conf",
    "json": "server_info.json",
    "sh": "start.sh",
    "yaml": "config.yaml",
}
EXAMPLES = [
    pytest.param(each, example, id=f"{each.code}-{index}")
    for each in RULES
    for index, example in enumerate(examples(each))
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("model")))


def found_in(
    each: Rule, example: Example, page_size: int, tokenizer: PromptTokenizer | None
) -> Sequence[Finding]:
    if Subject.ENGINE_CONFIG in each.subjects:
        return lint_configs(files(example, CONFIGS)).findings
    if example.language == "json":
        capacity = example.options.get("capacity-tokens")
        log = LogOptions(page_size=page_size, capacity_tokens=capacity)
        return diagnose(example.requests, log).findings
    linter = Linter(LintOptions(page_size=page_size, tokenizer=tokenizer))
    return linter.lint(files(example, FILES)).findings


def files(example: Example, names: Mapping[str, str]) -> list[SourceFile]:
    return [
        SourceFile(Path(name or names[example.language]), text.encode())
        for name, text in example.files
    ]


@pytest.mark.parametrize(("each", "example"), EXAMPLES)
def test_the_example_triggers_the_rule_and_what_to_use_instead_is_clean(
    each: Rule, example: Example, tokenizer: PromptTokenizer
) -> None:
    known = {"page-size", "capacity-tokens", "times"}
    assert set(example.options) <= known
    page_size = example.options.get("page-size", PAGE_SIZE)
    found = found_in(each, example, page_size, tokenizer if each.needs_tokenizer else None)
    if example.faulty:
        assert each.code in {finding.code for finding in found}
    else:
        assert not found


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.code)
def test_every_rule_has_an_example_and_what_to_use_instead(each: Rule) -> None:
    assert {example.faulty for example in examples(each)} == {True, False}


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
    [
        ("prompts/lint/python", Subject.PYTHON),
        ("cache/request_log", Subject.LOG),
        ("cache/engine_config", Subject.ENGINE_CONFIG),
    ],
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
