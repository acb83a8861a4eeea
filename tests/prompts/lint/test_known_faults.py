"""Faults and clean files that other linters were measured on, rebuilt from their descriptions."""

from pathlib import Path

import pytest

from prompts.library import shipped_templates
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile

RULES = (
    "You are the support assistant of Acme Bikes. Answer only from the manual below.\n"
    "Be brief and polite. If you do not know, say so.\n"
)
FAULTS = {
    "t01_now.j2": ("FW102", "Now: {{ now() }}\n" + RULES + "{{ question }}\n"),
    "t02_random.j2": ("FW103", "Pick {{ range(9) | random }}\n" + RULES + "{{ question }}\n"),
    "t03_mapping.j2": (
        "FW204",
        RULES + "{% for k, v in profile.items() %}{{ k }}: {{ v }}\n{% endfor %}",
    ),
    "t04_user.j2": ("FW104", "You help {{ user_name }}.\n" + RULES + "{{ question }}\n"),
    "t05_documents.j2": (
        "FW501",
        "{% for d in documents %}{{ d.text }}\n{% endfor %}" + RULES + "{{ question }}\n",
    ),
    "t06_locale.j2": ("FW205", RULES + "The limit is {{ '{:n}'.format(limit) }} euros.\n"),
    "t07_session.j2": ("FW103", "Session {{ session_id }}, {{ timestamp }}\n" + RULES),
    "t08_json.j2": ("FW208", RULES + "Configuration: {{ config | tojson }}\n"),
    "t09_branch.j2": (
        "FW106",
        "{% if beta %}You may propose beta features.{% endif %}\n" + RULES + "{{ question }}\n",
    ),
    "t11_crlf.txt": ("FW102 FW202", ("Today is {current_date}.\n" + RULES).replace("\n", "\r\n")),
}
CLEAN = {
    "t10_include.j2": "{% include 'rules.j2' %}\n{{ question }}\n",
    "ok_tail.j2": RULES + "\nIt is {{ now() }}. {{ user_name }} asks: {{ question }}\n",
    "ok_const_set.j2": "{% set brand = 'Acme' %}You work for {{ brand }}.\n" + RULES,
    "ok_literal_braces.txt": RULES + "Write ${HOME} for the home folder and {braces} in prose.\n",
}


def rules(path: Path, name: str) -> SourceFile | None:
    return SourceFile(Path(name), b"Be brief.\n") if name == "rules.j2" else None


@pytest.fixture(scope="module")
def linter() -> Linter:
    return Linter(LintOptions(), included=rules)


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_named(name: str, linter: Linter) -> None:
    codes, text = FAULTS[name]
    found = {f.code for f in linter.lint_file(SourceFile(Path(name), text.encode()))}
    assert set(codes.split()) <= found


@pytest.mark.parametrize("name", CLEAN)
def test_the_clean_file_is_clean(name: str, linter: Linter) -> None:
    assert linter.lint_file(SourceFile(Path(name), CLEAN[name].encode())) == ()


def test_the_shipped_templates_are_clean(linter: Linter) -> None:
    sources = [SourceFile(p, p.read_bytes()) for p in sorted(shipped_templates().glob("*.yaml"))]
    assert linter.lint(sources).findings == ()
    assert len(sources) >= 2


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "clean").iterdir()), ids=lambda path: path.name
)
def test_prompts_in_the_style_of_public_ones_are_clean(path: Path, linter: Linter) -> None:
    assert linter.lint_file(SourceFile(path, path.read_bytes())) == ()
