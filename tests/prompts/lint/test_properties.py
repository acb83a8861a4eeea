"""What holds for any file: no crash, places inside the file, fixes that never damage."""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prompts.lint.findings import Edit, Finding, Fix, FixSafety
from prompts.lint.fixing import fix_file
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile
from prompts.template_file import parse_template

NAMES = ("a.j2", "a.txt", "a.md", "a.prompt", "a.yaml")
WORDS = (
    "Be brief. ", " \n", "\r\n", "\t\n", "\n", "{{ now() }}", "{{ x.items() }}", "{% if a %}",
    "{% endif %}", "{% for m in messages[-3:] %}", "{% endfor %}", "{# foreword: ignore[FW102] #}",
    "{date}", "{{ context }}", "e\u0301", "\u00a0", "\u200b", "\ufeff", "\u65e5\u672c", "<s>",
    "<|im_start|>user\n", "{%- set x = now() -%}", "{{", "}}", "{% raw %}", "{% endraw %}", "User:",
    "name: a\nversion: 1\n", "segments:\n", "  - {id: a, role: user, volatility: turn, text: \"",
    "\"}\n", "{{ examples | random }}", "{{ y | tojson }}", "\U0001f468\u200d\U0001f469",
)  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)
anything = st.one_of(texts, st.text(max_size=60))


@pytest.fixture(scope="module")
def linter() -> Linter:
    return Linter(LintOptions(), included=lambda path, name: None)


LINTER = Linter(LintOptions(), included=lambda path, name: None)


@given(name=st.sampled_from(NAMES), text=anything)
@example(name="a.j2", text="{{ a.b.c() }}{{ {}.x }}{{ [][0] }}")
@example(name="a.j2", text="{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")
@example(name="a.j2", text="{{ '" + "a" * 50 + "' }}\r")
@example(name="a.j2", text="{{ a" + "|f" * 3000 + " }}")
@example(name="a.j2", text="{{ " + "(" * 3000 + "a" + ")" * 3000 + " }}")
@example(name="a.j2", text="{% if a %}" * 300 + "{% endif %}" * 300)
@example(name="a.yaml", text="{{ " + "[" * 500)
@example(name="a.txt", text="{" + "a" * 20_000 + " " * 20_000 + "x" + "#" * 20_000 + "\n \n")
def test_any_text_gives_findings_inside_it(name: str, text: str) -> None:
    data = text.encode(errors="surrogatepass")
    source = SourceFile(Path(name), data)
    for finding in LINTER.lint_file(source):
        place = finding.place
        assert 0 <= place.start <= place.stop <= len(data)
        assert source.place(place.start, place.stop) == place
        for edit in finding.fix.edits if finding.fix else ():
            assert 0 <= edit.start <= edit.stop <= len(data)


@given(name=st.sampled_from(NAMES), data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_a_place(name: str, data: bytes) -> None:
    for finding in LINTER.lint_file(SourceFile(Path(name), data)):
        assert finding.place.line >= 1


@given(name=st.sampled_from(NAMES), text=texts, unsafe=st.booleans())
def test_fixing_ends_where_nothing_is_left_to_fix_and_breaks_no_file(
    name: str, text: str, unsafe: bool
) -> None:
    source = SourceFile(Path(name), text.encode())
    broken = {f.code for f in LINTER.lint_file(source)} & {"FW901"}
    done = fix_file(source, LINTER.lint_file, unsafe=unsafe)
    after = LINTER.lint_file(done.source)
    assert {f.code for f in after} & {"FW901"} <= broken
    assert fix_file(done.source, LINTER.lint_file, unsafe=unsafe).source.data == done.source.data
    assert not [
        f for f in after if f.fix and (unsafe or f.fix.safety is FixSafety.SAFE) and not broken
    ]


@given(text=texts)
def test_a_safe_fix_changes_nothing_but_blanks_line_ends_and_spelling(text: str) -> None:
    source = SourceFile(Path("a.txt"), text.encode())
    done = fix_file(source, LINTER.lint_file)
    assert essence(done.source.text) == essence(text)


def essence(text: str) -> str:
    """The text without what safe fixes may change."""
    text = unicodedata.normalize("NFC", text).replace("\ufeff", "").replace("\u200b", "")
    return "".join(text.split())


def test_a_fix_that_would_break_the_file_is_left_out(linter: Linter) -> None:
    source = SourceFile(Path("a.j2"), b"{{ question }} \n{{ now() }} \n")

    edit = Edit(start=12, stop=14, replacement=b"")
    bad = Fix(safety=FixSafety.SAFE, description="bad", edits=(edit,))

    def lint(file: SourceFile) -> list[Finding]:
        return [
            replace(f, fix=bad) if f.code == "FW201" and f.place.line == 1 else f
            for f in linter.lint_file(file)
        ]

    done = fix_file(source, lint)
    assert done.source.data == b"{{ question }} \n{{ now() }}\n"
    assert done.fixed == 1


@given(data=st.binary(max_size=60), cut=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_a_place_says_what_an_editor_says(data: bytes, cut: tuple[int, int]) -> None:
    start, stop = sorted(min(value, len(data)) for value in cut)
    place = SourceFile(Path("x"), data).place(start, stop)
    before = data[:start]
    ends = before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")
    if not (before.endswith(b"\r") and data[start : start + 1] == b"\n"):
        assert place.line == ends + 1
    assert place.column >= 1


LINES = (
    "Be brief. ",
    "Be kind.",
    "",
    "  - one\t",
    "Caf\u00e9 e\u0301 \u00a0x",
    "a\u200bb",
    "'q' \"d\" \\ #",
    ": x",
)
scalars = st.tuples(
    st.sampled_from(("|", "|-", "|+", ">", "'", '"')),
    st.lists(st.sampled_from(LINES), min_size=1, max_size=5),
)


def written(style: str, lines: list[str]) -> str:
    """A YAML scalar that holds the lines."""
    if style.startswith(("|", ">")):
        return f"{style}2\n" + "".join(f"      {line}\n" for line in lines)
    if style == "'":
        return "'" + "\n\n      ".join(lines).replace("'", "''") + "'\n"
    return json.dumps("\n".join(lines)) + "\n"


@given(segments=st.lists(scalars, min_size=1, max_size=3))
def test_fixing_a_template_changes_its_texts_only_where_it_says(
    segments: list[tuple[str, list[str]]],
) -> None:
    text = "name: a\nversion: 1\nsegments:\n" + "".join(
        f"  - id: s{number}  # kept \n    role: user\n    volatility: static\n    text: "
        + written(style, lines)
        for number, (style, lines) in enumerate(segments)
    )
    source = SourceFile(Path("a.yaml"), text.encode())
    before = parse_template(source.path, source.data, checked=False)
    done = fix_file(source, LINTER.lint_file)
    after = parse_template(source.path, done.source.data, checked=False)
    assert len(after.segments) == len(before.segments)
    for old, new in zip(before.segments, after.segments, strict=True):
        assert essence(new.source) == essence(old.source)
        assert len(new.source.split("\n")) == len(old.source.split("\n"))
    assert done.source.data.count(b"# kept \n") == len(segments)
