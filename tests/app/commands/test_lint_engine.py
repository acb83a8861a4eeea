"""`foreword lint --engine-config`, as a person types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.commands.lint import ENGINE_CONFIG_KINDS
from cache.engine_config import ConfigKind

ENGINE = "--disable-radix-cache --page-size 16\n"
TIER = "lmcache server --l1-size-gb 4 --eviction-policy LRU --chunk-size 100\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments], input=text)


def test_findings_end_with_1_and_nothing_found_with_0(folder: Path) -> None:
    (folder / "engine.sh").write_text(ENGINE)
    found = run("--engine-config", "engine.sh")
    assert found.exit_code == 1, found.output
    assert found.stdout.startswith("engine.sh:1:1: error FW709 radix-cache-off (confirmed)\n")
    assert "    --disable-radix-cache --page-size 16\n    ^^^^^^^^^^^^^^^^^^^^^\n" in found.stdout
    (folder / "engine.sh").write_text("--page-size 16\n")
    clean = run("--engine-config", "engine.sh")
    assert (clean.exit_code, clean.output) == (0, "1 file: nothing found.\n")


def test_several_files_are_judged_together_and_one_may_be_standard_input(folder: Path) -> None:
    (folder / "tier.sh").write_text(TIER)
    alone = run("--engine-config", "tier.sh")
    assert alone.exit_code == 0, alone.output
    both = run(
        "--engine-config", "tier.sh", "--engine-config", "-", text="--enable-lmcache --page-size 64"
    )
    assert both.exit_code == 1
    assert "tier.sh:1:53: error FW715 chunk-splits-page" in both.stdout
    assert both.stdout.endswith("2 files: 1 error.\n")


def test_outputs_are_those_of_other_lint_runs(folder: Path) -> None:
    (folder / "engine.sh").write_text(ENGINE)
    found = json.loads(run("--engine-config", "engine.sh", "--format", "json").stdout)
    assert [each["code"] for each in found["findings"]] == ["FW709"]
    sarif = json.loads(run("--engine-config", "engine.sh", "--format", "sarif").stdout)
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["FW709"]
    github = run("--engine-config", "engine.sh", "--format", "github")
    assert github.stdout.startswith("::error file=engine.sh,line=1,col=1,title=FW709")


def test_rules_can_be_left_out_and_severities_too(folder: Path) -> None:
    (folder / "engine.sh").write_text("--strip-thinking-cache --trust-request-chat-template\n")
    assert run("--engine-config", "engine.sh").exit_code == 1
    assert run("--engine-config", "engine.sh", "--ignore", "FW723").exit_code == 0
    assert run("--engine-config", "engine.sh", "--fail-on", "error").exit_code == 0
    assert run("--engine-config", "engine.sh", "--select", "FW719").exit_code == 0
    strict = run("--engine-config", "engine.sh", "--select", "FW719", "--fail-on", "note")
    assert strict.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--engine-config", "absent.yml"], "absent.yml can't be read"),
        (["--engine-config", "notes.txt"], "nothing in it starts or configures SGLang"),
        (["--engine-config", "notes.txt", "."], "give one of PATHS, --log and --engine-config"),
        (["--engine-config", "notes.txt", "--log", "-"], "give one of PATHS, --log and"),
        (["--engine-config", "notes.txt", "--fix"], "there are no fixes for --engine-config"),
        (["--engine-config", "notes.txt", "--engine-config-kind", "server-info"], "no JSON object"),
    ],
)
def test_bad_usage_ends_with_2_and_a_reason(
    arguments: list[str], reason: str, folder: Path
) -> None:
    (folder / "notes.txt").write_text("hello world\n")
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert reason in refused.stderr


def test_the_kinds_are_those_that_can_be_read() -> None:
    assert tuple(kind.value for kind in ConfigKind) == ENGINE_CONFIG_KINDS


def test_other_runs_load_none_of_it(folder: Path) -> None:
    (folder / "a.txt").write_text("Be brief.\n")
    code = (
        "import sys; from app.cli import main\n"
        "try: main(['lint', 'a.txt'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('cache')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines()[-1] == "[]"
