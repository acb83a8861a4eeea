"""`foreword lint`, as a person types it."""

import json
import os
import resource
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from prompts.library import shipped_templates
from tests.tokenizer_folders import write_tokenizer

FAULT = "Now: {{ now() }}\nYou are the support assistant of a bicycle shop. Be brief.\n"
MAIN = "from app.cli import main; main()"
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
        (("--log", "a.jsonl", "a.j2"), "one of PATHS, --log and --engine-config"),
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


def test_a_log_in_which_no_request_can_be_read_is_not_clean(folder: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    (folder / "array.json").write_text(json.dumps([body], indent=2))
    done = run("--log", "array.json")
    assert done.exit_code == 2
    assert "no request could be read from array.json" in done.output
    assert "one JSON object a line is wanted" in done.output


def test_findings_of_a_log_obey_the_same_options(folder: Path) -> None:
    rules = "Answer the customers of the harbour office in plain words. " * 40
    lines = [
        json.dumps(
            {
                "messages": [
                    {"role": "system", "content": f"Now: 2026-11-03T09:00:{second:02}\n{rules}"},
                    {"role": "user", "content": f"Question {second}?"},
                ]
            }
        )
        for second in range(20)
    ]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    sarif = json.loads(run("--log", "log.jsonl", "--format", "sarif").stdout)
    assert [found["ruleId"] for found in sarif["runs"][0]["results"]] == ["FW102"]
    annotated = run("--log", "log.jsonl", "--format", "github")
    assert annotated.exit_code == 1
    assert annotated.stdout.startswith("::error file=log.jsonl,line=2,")
    ignoring = run("--log", "log.jsonl", "--ignore", "FW102")
    assert ignoring.exit_code == 0
    assert "No findings." in ignoring.stdout


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
    # Half a second on an idle machine; tests share theirs, and other children may end meanwhile.
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 3.0


def foreword(command: str) -> subprocess.CompletedProcess[str]:
    """`foreword lint` in a shell, with what only a shell can do to its input and output."""
    script = f"'{sys.executable}' -c '{MAIN}' lint --cache no-cache {command}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("a.j2 >/dev/full", 2, "Error: the output can't be written: No space left on device\n"),
        ("--format json a.j2 >/dev/full", 2, "the output can't be written"),
        ("--explain FW101 >/dev/full", 2, "the output can't be written"),
        ("a.j2 >&-", 1, "no token counts"),
        ("a.j2 | head -1", 0, ""),
    ],
)
def test_an_output_that_cant_be_written_is_named_without_a_traceback(
    folder: Path, command: str, code: int, said: str
) -> None:
    (folder / "a.j2").write_text(FAULT * 2000)
    done = foreword(command)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_text_of_all_scripts_is_printed_in_the_c_locale(folder: Path) -> None:
    (folder / "a.j2").write_text(f"{FAULT}Café 東京 \u00a0\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "lint", "a.j2", "--cache", "no-cache"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "LC_ALL": "C"},
        check=False,
    )
    assert done.returncode == 1
    assert "Café 東京 ⟨U+00A0⟩" in done.stdout.decode()


def test_what_is_no_file_is_refused_in_one_sentence(folder: Path) -> None:
    (folder / "self.j2").symlink_to("self.j2")
    os.mkfifo(folder / "pipe.j2")
    for path in ("self.j2", "pipe.j2", "a" * 5000):
        refused = run(path)
        assert refused.exit_code == 2
        assert f"{path} can't be read: " in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_links_that_lead_in_a_circle_or_nowhere_are_left_out(folder: Path) -> None:
    (folder / "circle").symlink_to(".")
    (folder / "nowhere.j2").symlink_to("missing.j2")
    (folder / "self.j2").symlink_to("self.j2")
    (folder / "a.j2").write_text(CLEAN)
    assert run(".").stdout == "1 file: nothing found.\n"


def test_a_file_marked_read_only_is_not_fixed(folder: Path) -> None:
    path = folder / "a.j2"
    path.write_text("Be brief.  \n{{ question }}\n")
    path.chmod(0o444)
    refused = run("--fix", "a.j2")
    assert refused.exit_code == 2
    assert "a.j2 can't be written: it is read-only" in refused.stderr
    assert path.read_text() == "Be brief.  \n{{ question }}\n"
    assert list(folder.iterdir()) == [path]


def test_a_file_with_ten_thousand_faults_is_read_in_seconds(folder: Path) -> None:
    (folder / "a.txt").write_text("Answer {question} from the café's manual. Be brief.\n" * 10_000)
    started = time.process_time()
    assert run("a.txt").exit_code == 1
    assert time.process_time() - started < 20


def test_unsafe_fixes_move_a_templates_segments(folder: Path) -> None:
    head = (
        "name: a\nversion: 1\nvariables:\n  region: {type: text, volatility: tenant}\nsegments:\n"
    )
    region = '  - {id: region, role: system, volatility: tenant, text: "You serve {{ region }}."}'
    rules = (
        '  - {id: rules, role: system, volatility: static, text: "Be brief, kind and truthful."}'
    )
    (folder / "a.yaml").write_bytes(f"{head}{region}\n{rules}".replace("\n", "\r\n").encode())
    assert "1 can be fixed with --unsafe-fixes" in run("a.yaml").stdout
    assert run("--unsafe-fixes", "a.yaml").exit_code == 0
    moved = f"{head}{rules}\n{region}".replace("\n", "\r\n").encode()
    assert (folder / "a.yaml").read_bytes() == moved
