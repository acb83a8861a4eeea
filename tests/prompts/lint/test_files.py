"""Which files are linted, which lines a diff changes, and what settings say."""

from pathlib import Path

import pytest

from prompts.lint.changed_lines import parse_diff
from prompts.lint.config import LintConfig, LintConfigError, find_config, read_config
from prompts.lint.discovery import find_files
from prompts.lint.findings import Place
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.registry import rule
from prompts.lint.source_file import SourceFile

TEMPLATE = "name: a\nversion: 1\nsegments:\n  - {id: a, role: user, volatility: turn, text: x}\n"


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in find_files([folder])]


def test_a_folder_is_searched_for_prompts_and_nothing_else(tmp_path: Path) -> None:
    wanted = {
        "a.j2": "x", "b.prompt": "x", "c.py": "x", "mail.tmpl": "x", "prompts/d.txt": "x",
        "prompts/e.md": "x", "system_prompt.md": "x", "templates/f.yaml": TEMPLATE,
        "rules.md.j2": "x",
    }  # fmt: skip
    others = {
        "README.md": "x", "notes.txt": "x", "page.html.j2": "x", "nginx.conf.j2": "x",
        "compose.yaml": "services: {}", ".git/x.j2": "x", "node_modules/y.j2": "x",
        "env/pyvenv.cfg": "", "env/z.j2": "x", "data.json": "{}", "prompted.rst": "x",
        "impromptu.md": "x", "prompts/README.md": "x", "Dockerfile.j2": "x",
    }  # fmt: skip
    for name, text in (wanted | others).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(names(tmp_path)) == sorted(wanted)


def test_a_file_that_is_named_is_always_linted_and_only_once(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("x")
    assert list(find_files([readme, tmp_path, readme])) == [readme]
    (tmp_path / "compose.yaml").write_text("services: {}")
    (tmp_path / "faulty.yaml").write_text("name: a\nversion: 1\nsegmnts: []\n")
    named = [tmp_path / "compose.yaml", tmp_path / "faulty.yaml"]
    assert list(find_files(named)) == named[1:]
    with pytest.raises(FileNotFoundError):
        list(find_files([tmp_path / "missing.j2"]))


def test_two_files_of_one_reference_are_found() -> None:
    sources = [SourceFile(Path(name), TEMPLATE.encode()) for name in ("a.yaml", "b.yaml")]
    (found,) = Linter(LintOptions()).lint(sources).findings
    assert (found.code, found.place.path) == ("FW907", Path("b.yaml"))
    assert "a@1 is already defined by a.yaml" in found.message


DIFF = """\
diff --git a.j2 a.j2
--- a.j2
+++ a.j2
@@ -2 +2,2 @@ head
-old
+++ looks like a file
+@@ -1 +1 @@ looks like a hunk
@@ -9,0 +11 @@
+new
diff --git gone.j2 gone.j2
--- gone.j2
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
diff --git "t\\303\\251 \\"x\\".j2" "t\\303\\251 \\"x\\".j2"
--- /dev/null
+++ "t\\303\\251 \\"x\\".j2"
@@ -0,0 +1,3 @@
+a
+b
+c
"""


@pytest.mark.parametrize(
    ("name", "line", "changed"),
    [
        ("a.j2", 1, False), ("a.j2", 2, True), ("a.j2", 3, True), ("a.j2", 4, False),
        ("a.j2", 11, True), ("a.j2", 12, False), ('té "x".j2', 3, True), ("other.j2", 1, False),
        ("new.j2", 77, True), ("gone.j2", 1, False),
    ],
)  # fmt: skip
def test_a_diff_tells_which_lines_are_new(name: str, line: int, changed: bool) -> None:
    root = Path("/repository")
    lines = parse_diff(DIFF, root, new=[root / "new.j2"])
    place = Place(path=root / name, line=line, column=1, start=0, stop=0)
    assert lines.holds(rule("FW102").finding(message="x", place=place)) == changed


def test_settings_are_read_from_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.foreword.lint]\nselect = ["FW1"]\npage-size = 32\ntokenizer = "model"\n'
    )
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    found = find_config(inner)
    assert found == tmp_path / "pyproject.toml"
    assert read_config(found) == LintConfig(
        select=("FW1",), page_size=32, tokenizer=tmp_path / "model"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.foreword.lint]\nselct = []", "selct isn't a lint setting"),
        ("[tool.foreword.lint]\nignore = 'FW1'", "ignore must be a list"),
        ("[tool.foreword.lint]\nchunk-size = true", "chunk-size must be a whole number"),
        ("[tool.foreword.lint]\nfail-on = 3", "fail-on must be text"),
        ("[tool.foreword]\nlint = 3", "must be a table"),
        ("[tool", "not valid TOML"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    with pytest.raises(LintConfigError, match=problem):
        read_config(path)


@pytest.mark.parametrize(
    ("select", "ignore", "runs"),
    [
        ((), (), True), (("FW1",), (), True), (("FW2",), (), False), ((), ("FW1",), False),
        (("FW102",), ("FW1",), True), (("FW1",), ("FW102",), False),
        (("clock-in-prefix",), ("FW10",), True), ((), ("clock-in-prefix",), False),
        (("FW102",), ("FW102",), False),
    ],
)  # fmt: skip
def test_the_longer_word_decides(
    select: tuple[str, ...], ignore: tuple[str, ...], runs: bool
) -> None:
    assert LintOptions(select=select, ignore=ignore).wants("FW102", "clock-in-prefix") == runs
