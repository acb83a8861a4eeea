"""Outputs: text that shows what can't be seen, SARIF, GitHub annotations, JSON."""

import json
import os
from pathlib import Path
from urllib.parse import unquote

import pytest

from prompts.lint.findings import Finding, Place
from prompts.lint.github_output import github_output
from prompts.lint.json_output import json_output
from prompts.lint.linter import Linter, LintResult
from prompts.lint.options import LintOptions
from prompts.lint.registry import RULES, rule
from prompts.lint.sarif_output import sarif_output
from prompts.lint.source_file import SourceFile
from prompts.lint.text_output import text_output
from prompts.lint.visible import visible, width

LEVELS = {"none", "note", "warning", "error"}


def result_of(name: str, text: str) -> tuple[LintResult, dict[Path, SourceFile]]:
    source = SourceFile(Path(name), text.encode())
    return Linter(LintOptions()).lint([source]), {source.path: source}


def shown(name: str, text: str, *, colour: bool = False) -> list[str]:
    result, sources = result_of(name, text)
    return "\n".join(text_output(result, sources, colour=colour)).split("\n")


def finding(message: str, path: str = "a.j2") -> Finding:
    place = Place(path=Path(path), line=3, column=7, start=20, stop=25)
    return rule("FW102").finding(message=message, place=place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("a\u200b", "a⟨U+200B⟩"),
        ("a\tb", "a\\tb"),
        ("end  ", "end··"),
        ("e\u0301 x\u0301", "e⟨U+0301⟩ x\u0301"),
        ("\x1b[31m", "\\x1b[31m"),
        ("Ärger 東京 👨‍👩‍👧", "Ärger 東京 👨‍👩‍👧"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_the_caret_stands_under_what_is_meant() -> None:
    lines = shown("a.j2", "東京\u00a0x\n")
    assert lines[2] == "    東京⟨U+00A0⟩x"
    assert lines[3] == "    " + " " * width("東京") + "^" * len("⟨U+00A0⟩")


def test_a_long_line_is_cut_around_the_place() -> None:
    long = "You are the support assistant of a bicycle shop. " * 10
    lines = shown("a.j2", f"{long}{{{{ now() }}}} {long}\n")
    assert lines[2].startswith("    …")
    assert lines[2].endswith("…")
    assert len(lines[2]) < 120
    start = lines[3].index("^")
    assert lines[2][start : start + len("{{ now() }}")] == "{{ now() }}"


def test_carriage_returns_are_shown() -> None:
    assert shown("a.txt", "Be brief.\r\n")[2] == "    Be brief.\\r"


def test_colour_only_where_it_is_asked_for() -> None:
    text = "{{ now() }} You are the support assistant of a bicycle shop.\n"
    assert "\x1b[" not in "\n".join(shown("a.j2", text))
    assert "\x1b[31merror" in "\n".join(shown("a.j2", text, colour=True))


def test_the_summary_counts_what_fixes_would_do() -> None:
    assert shown("a.txt", "Be\u00a0brief. \nB\u00adye.\n")[-1] == (
        "1 file: 2 warnings, 1 note. 2 can be fixed with --fix, 1 more with --unsafe-fixes."
    )
    assert shown("a.txt", "Be brief.\n") == ["1 file: nothing found."]


def test_annotations_escape_what_would_end_them() -> None:
    result = LintResult(
        findings=(finding("100 % is: a, b\nand\rc", "dir,x/a:b%.j2"),), files=1, skipped=()
    )
    assert list(github_output(result)) == [
        "::error file=dir%2Cx/a%3Ab%25.j2,line=3,col=7,title=FW102 clock-in-prefix"
        "::100 %25 is: a, b%0Aand%0Dc"
    ]


def test_json_has_one_object_for_each_finding() -> None:
    result, _ = result_of("a.txt", "Be\u00a0brief. \n")
    log = json.loads(json_output(result))
    assert log["schema_version"] == 1
    assert [f["code"] for f in log["findings"]] == ["FW207", "FW201"]
    assert log["skipped_rules"] == ["FW301", "FW302", "FW303"]


def test_sarif_has_what_the_schema_requires() -> None:
    name = "prompts é/a b.txt"
    result, sources = result_of(name, "Be\u00a0brief.\r\n")
    log = json.loads(sarif_output(result, "1.2.3"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("Foreword", "1.2.3")
    assert [r["id"] for r in driver["rules"]] == [r.code for r in RULES]
    for described in driver["rules"]:
        assert described["shortDescription"]["text"]
        assert described["defaultConfiguration"]["level"] in LEVELS
    assert run["columnKind"] == "unicodeCodePoints"
    data = sources[Path(name)].data
    for each in run["results"]:
        assert driver["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["level"] in LEVELS
        assert each["message"]["text"]
        (location,) = each["locations"]
        physical = location["physicalLocation"]
        assert unquote(physical["artifactLocation"]["uri"]) == name
        assert " " not in physical["artifactLocation"]["uri"]
        assert physical["region"]["startLine"] >= 1
        assert physical["region"]["startColumn"] >= 1
        (fix,) = each["fixes"]
        assert fix["description"]["text"]
        for change in fix["artifactChanges"]:
            for replacement in change["replacements"]:
                region = replacement["deletedRegion"]
                assert region["byteOffset"] + region["byteLength"] <= len(data)
                assert isinstance(replacement["insertedContent"]["text"], str)
    assert len({r["partialFingerprints"]["foreword/v1"] for r in run["results"]}) == 2


def test_a_fingerprint_stays_when_the_finding_moves() -> None:
    prints = []
    for before in ("", "A line.\n"):
        result, _ = result_of("a.txt", f"{before}Be\u00a0brief.\n")
        log = json.loads(sarif_output(result, "1"))
        prints.append(log["runs"][0]["results"][0]["partialFingerprints"])
    assert prints[0] == prints[1]


def test_nothing_in_a_file_or_its_name_reaches_the_terminal_as_a_command() -> None:
    name = os.fsdecode(b"a\xff\x1b[2J.j2")
    text = "{{ now() ~ '\x1b[2J\u202e' }} You are the support assistant of a bicycle shop.\n"
    result, sources = result_of(name, text)
    assert any(f.code == "FW102" for f in result.findings)
    lines = "\n".join(text_output(result, sources, colour=False))
    assert "\x1b" not in lines
    assert "\u202e" not in lines
    for output in (lines, json_output(result), sarif_output(result, "1"), *github_output(result)):
        assert output.encode()
