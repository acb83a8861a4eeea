"""The hooks name commands that exist, and run on the files that they are for."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
}


def chosen(hook: str, path: str) -> bool:
    """Source: pre-commit's `filter_by_include_exclude`: both patterns are searched for."""
    never = HOOKS[hook].get("exclude", "^$")
    return bool(re.search(HOOKS[hook]["files"], path)) and not re.search(never, path)


def test_there_are_two_hooks() -> None:
    assert list(HOOKS) == ["foreword-lint", "foreword-lock"]
    assert all(hook["language"] == "python" for hook in HOOKS.values())


@pytest.mark.parametrize(
    ("path", "linted", "locked"),
    [
        ("prompts/templates/chat.yaml", True, True),
        ("prompts.lock", False, True),
        ("agent/prompts.lock", False, True),
        ("src/agent.py", True, False),
        ("agent/system.j2", True, False),
        ("agent/system.jinja2", True, False),
        ("agent/system_prompt.txt", True, False),
        ("agent/prompts/system.md", True, False),
        ("prompts/greeting.tmpl", True, False),
        ("README.md", False, False),
        ("docs/prompting.md", False, False),
        ("deploy/values.yaml", False, False),
        ("requirements.txt", False, False),
        ("web/index.html.j2", False, False),
        ("ansible/templates/nginx.conf.j2", False, False),
        (".github/workflows/ci.yml", False, False),
    ],
)
def test_each_runs_on_the_files_that_it_is_for(path: str, linted: bool, locked: bool) -> None:
    assert chosen("foreword-lint", path) is linted
    assert chosen("foreword-lock", path) is locked


@pytest.mark.parametrize(
    ("hook", "files"),
    [("foreword-lint", ["prompts/templates/chat.yaml"]), ("foreword-lock", [])],
)
def test_the_commands_pass_on_this_project(hook: str, files: list[str], tmp_path: Path) -> None:
    foreword = Path(sys.executable).parent / "foreword"
    command, *options = shlex.split(HOOKS[hook]["entry"])
    assert command == "foreword"
    argv = [str(foreword), *options, *files, "--cache", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
