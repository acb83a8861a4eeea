"""`foreword lint`, as a person types it."""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from prompts.library import shipped_templates
from tests.tokenizer_folders import write_tokenizer

FAULT = "Now: {{ now() }}\nYou are the support assistant of a bicycle shop. Be brief.\n"
CLEAN = "You are the support assistant of a bicycle shop. Be brief.\n{{ question }}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments, "--cache", "no-cache"])


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_findings_end_with_1_and_nothing_found_with_0(folder: Path) -> None:
    (folder / "a.j2").write_text(FAULT)
    found = run("a.j2")
    assert found.exit_code == 1, found.output
    assert found.stdout.startswith("a.j2:1:6: error FW102 clock-in-prefix (confirmed)\n")
    assert "    Now: {{ now() }}\n         ^^^^^^^^^^^\n" in found.stdout
    assert found.stdout.endswith("1 file: 1 error.\n")
    assert "no token counts" in found.stderr

    (folder / "a.j2").write_text(CLEAN)
    clean = run("a.j2")
    assert (clean.exit_code, clean.stdout) == (0, "1 file: nothing found.\n")
    assert "FW301, FW302, FW303 need one and were skipped" in clean.stderr


def test_the_shipped_templates_are_clean(folder: Path) -> None:
    assert run(str(shipped_templates())).exit_code == 0


def test_counts_come_with_a_tokenizer(folder: Path) -> None:
    model = write_tokenizer(folder / "model")
    (folder / "a.j2").write_text(FAULT)
    found = run("a.j2", "--tokenizer", str(model), "--page-size", "4")
    assert "It breaks the shared prefix at token " in found.stdout
    assert "tokens are recomputed on the GPU" in found.stdout
    assert "no token counts" not in found.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.j2",), "missing.j2 isn't there"),
        (("--select", "FW999"), "no rule 'FW999'"),
        (("--explain", "FW999"), "no rule 'FW999'"),
        (("--tokenizer", "nowhere"), "nowhere has no tokenizer.json"),
        (("--diff", "no-such-revision"), "git rev-parse"),
        (("--diff", "--output=x"), "not a revision"),
        (("--log", "missing.jsonl"), "missing.jsonl"),
        (("--log", "-", "--format", "sarif"), "--log gives text or json"),
        (("--log", "a.jsonl", "a.j2"), "either PATHS or --log"),
        (("--fix", "--diff", "HEAD"), "--fix changes whole files"),
        (("--format", "xml"), "Invalid value for '--format'"),
    ],
)
def test_bad_usage_ends_with_2_and_one_sentence(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.output
    assert "Traceback" not in done.output


def test_what_fails_a_run_can_be_chosen(folder: Path) -> None:
    (folder / "a.j2").write_text("Be brief. \n")
    assert run("a.j2").exit_code == 0
    assert run("a.j2", "--fail-on", "note").exit_code == 1
    (folder / "a.j2").write_text(FAULT)
    assert run("a.j2", "--fail-on", "never").exit_code == 0
    assert run("a.j2", "--ignore", "clock-in-prefix").exit_code == 0
    assert run("a.j2", "--select", "FW2").exit_code == 0
    assert run("a.j2", "--select", "FW1,FW2", "--ignore", "FW10").exit_code == 0


def test_settings_come_from_the_nearest_file_and_the_command_line_wins(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.foreword.lint]\nignore = ["FW102"]\n')
    (folder / "a.j2").write_text(FAULT)
    assert run("a.j2").exit_code == 0
    assert run("a.j2", "--ignore", "FW2").exit_code == 1
    (folder / "foreword.toml").write_text('[lint]\nfail-on = "never"\n')
    assert run("a.j2").exit_code == 0
    other = folder / "other.toml"
    other.write_text("[tool.foreword.lint]\npage-size = 0\n")
    done = run("a.j2", "--config", "other.toml")
    assert done.exit_code == 2
    assert "page-size must be a whole number from 1" in done.output


def test_fixing_keeps_the_mode_the_link_and_all_other_bytes(folder: Path) -> None:
    real = folder / "real.txt"
    real.write_bytes(b"Be brief. \nCaf\xc3\xa9\xc2\xa0au lait.\n\nNo end")
    real.chmod(0o640)
    link = folder / "prompt.txt"
    link.symlink_to(real)
    done = run("prompt.txt", "--fix")
    assert done.exit_code == 0
    assert "fixed 2 in prompt.txt" in done.stderr
    assert real.read_bytes() == b"Be brief.\nCaf\xc3\xa9 au lait.\n\nNo end"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in folder.iterdir()) == ["prompt.txt", "real.txt"]


def test_unsafe_fixes_have_to_be_asked_for(folder: Path) -> None:
    text = "{% for k, v in facts.items() %}{{ k }}{% endfor %}\n"
    (folder / "a.j2").write_text(text)
    done = run("a.j2", "--fix")
    assert (folder / "a.j2").read_text() == text
    assert "1 can be fixed with --unsafe-fixes" in done.stdout
    run("a.j2", "--unsafe-fixes")
    assert (folder / "a.j2").read_text() == text.replace(".items()", " | dictsort")


def test_only_changed_lines_are_shown_with_diff(folder: Path) -> None:
    old = "{{ uuid4() }}\n" + "You are the support assistant of a bicycle shop. Be brief.\n" * 3
    git("init", "-q")
    (folder / "a b.j2").write_text(old)
    git("add", ".")
    git("commit", "-qm", "one")
    assert run("--diff", "HEAD").exit_code == 0
    (folder / "a b.j2").write_text(old + "{{ now() }}\n" + old[14:] * 3)
    (folder / "neu\u00e9.j2").write_text(FAULT)
    found = run("--diff", "HEAD", "--format", "json")
    assert [(f["path"], f["line"]) for f in json.loads(found.stdout)["findings"]] == [
        ("a b.j2", 5),
        ("neu\u00e9.j2", 1),
    ]


def test_json_has_a_schema_version_and_all_that_is_known(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"Be brief.\r\n")
    done = json.loads(run("a.txt", "--format", "json").stdout)
    assert done["schema_version"] == 1
    assert done["files"] == 1
    (finding,) = done["findings"]
    assert finding["code"] == "FW202"
    assert finding["path"] == "a.txt"
    assert (finding["line"], finding["column"]) == (1, 10)
    assert finding["fix"]["edits"] == [{"start": 9, "stop": 11, "replacement": "\n"}]
    assert finding["cost"] is None


def test_explain_says_all_about_a_rule(folder: Path) -> None:
    done = run("--explain", "clock-in-prefix")
    assert done.exit_code == 0
    assert done.stdout.startswith("# FW102 clock-in-prefix\n")
    assert "## Use instead" in done.stdout


def test_a_log_is_diagnosed(folder: Path) -> None:
    lines = [
        json.dumps({"messages": [{"role": "system", "content": "Be brief."},
                                 {"role": "user", "content": f"Question {number}?"}]})
        for number in range(5)
    ]  # fmt: skip
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    done = run("--log", "log.jsonl", "--format", "json", "--fail-on", "error")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["schema_version"] == 1
    assert run("--log", "log.jsonl").stdout.strip()


def test_it_starts_quickly_and_imports_nothing_heavy(folder: Path) -> None:
    (folder / "a.j2").write_text(CLEAN)
    code = (
        "import sys; from app.cli import main\n"
        "try: main(['lint', 'a.j2'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'faiss', 'fastapi', 'redis', 'httpx', 'sentence_transformers',"
        " 'pydantic', 'sqlalchemy', 'numpy', 'rich'} & set(sys.modules)))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.splitlines()[-1] == "[]"
    # Half a second on an idle machine; tests share theirs.
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 1.0
