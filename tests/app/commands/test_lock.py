"""`foreword lock`, as a person and as CI run it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from prompts import shipped_templates
from tests.tokenizer_folders import write_tokenizer

_SHIPPED = sorted(shipped_templates().glob("*.yaml"))


class Project:
    """A folder with templates, a lock and a small tokenizer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.templates = Path(shutil.copytree(shipped_templates(), root / "prompts" / "templates"))
        self.tokenizer = write_tokenizer(root / "model")
        self.lock_file = root / "prompts.lock"

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.templates / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    def lock(self, *arguments: str, tokenizer: bool = True) -> Result:
        options = ["--lock", str(self.lock_file), "--templates", str(self.templates)]
        options += ["--cache", str(self.root / "cache"), "--home", str(self.root / "home")]
        options += ["--tokenizer", str(self.tokenizer)] if tokenizer else []
        return CliRunner().invoke(main, ["lock", *options, *arguments])

    def made_model(self, folder: Path) -> None:
        """A model in the cache, as `foreword up` leaves it."""
        models = self.root / "cache" / "models"
        shutil.copytree(folder, models / "0123abcd")
        (models / "some-model.json").write_text('{"folder": "0123abcd"}')

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", *identity, *arguments]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    assert made.lock().exit_code == 0
    return made


def test_a_fresh_lock_is_current(project: Project) -> None:
    done = project.lock("--check")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert f"prompts.lock is current: {len(_SHIPPED)} templates" in done.stderr


def test_writing_again_changes_no_byte(project: Project) -> None:
    before = project.lock_file.read_bytes()
    assert project.lock().exit_code == 0
    assert project.lock_file.read_bytes() == before


def test_a_changed_scaffold_fails_and_tells_what_it_costs(project: Project) -> None:
    project.edit("docqa.yaml", "Use only what", "Use just what")
    done = project.lock("--check", "--requests-per-s", "40", "--prefill-tok-s", "9000")
    assert done.exit_code == 1
    tokens = json.loads(project.lock_file.read_text())["templates"]["docqa@2"]["scaffold_tokens"]
    assert done.stdout.startswith(f"{project.lock_file}: docqa@2 changed without a new version")
    assert f"invalidates {tokens} tokens for every request of docqa" in done.stdout
    assert "at 40 requests/s and 9,000 tok/s of prefill" in done.stdout
    assert "raise its version, or take the change back" in done.stdout


def test_a_recorded_version_is_not_recorded_again_unless_forced(project: Project) -> None:
    before = project.lock_file.read_bytes()
    project.edit("docqa.yaml", "Use only what", "Use just what")
    done = project.lock()
    assert done.exit_code == 1
    assert "was not written" in done.stderr
    assert project.lock_file.read_bytes() == before
    assert project.lock("--force").exit_code == 0
    assert project.lock("--check").exit_code == 0


def test_a_new_version_is_recorded_with_its_cost(project: Project) -> None:
    project.edit("docqa.yaml", "Use only what", "Use just what")
    project.edit("docqa.yaml", "version: 2", "version: 3")
    check = project.lock("--check")
    assert check.exit_code == 1
    assert "docqa@3 is new; after docqa@2 it invalidates" in check.stdout
    assert "docqa@2 has no template any more" in check.stdout
    done = project.lock()
    assert done.exit_code == 0
    assert "docqa@3 is new; after docqa@2 it invalidates" in done.stdout
    assert list(json.loads(project.lock_file.read_text())["retired"]) == ["docqa@2"]
    assert project.lock("--check").exit_code == 0
    project.edit("docqa.yaml", "version: 3", "version: 2")
    assert "docqa@2 was retired with another text" in project.lock("--check").stdout


def test_without_a_tokenizer_bytes_are_checked_and_counts_are_said_to_be_missing(
    project: Project,
) -> None:
    done = project.lock("--check", tokenizer=False)
    assert done.exit_code == 0
    assert "no token counts" in done.stderr
    assert "--tokenizer FOLDER" in done.stderr
    project.edit("chat.yaml", "say so", "say it")
    done = project.lock("--check", tokenizer=False)
    assert done.exit_code == 1
    assert "tokens for every request of chat" in done.stdout, "the lock knows the old count"


def test_another_tokenizer_is_told(project: Project) -> None:
    write_tokenizer(project.root / "model", chat_template="{{ messages[0]['content'] }}")
    done = project.lock("--check")
    assert done.exit_code == 1
    assert "the token counts are of another tokenizer" in done.stdout


def test_without_a_lock_file_everything_is_new(project: Project) -> None:
    project.lock_file.unlink()
    done = project.lock("--check")
    assert done.exit_code == 1
    assert done.stdout.count("is new; run `foreword lock`") == len(_SHIPPED)


def test_a_lock_recorded_again_by_hand_is_still_seen_against_the_main_branch(
    project: Project,
) -> None:
    project.git("init", "-b", "main")
    project.git("add", "prompts", "prompts.lock")
    project.git("commit", "-m", "templates")
    project.edit("docqa.yaml", "Use only what", "Use just what")
    assert project.lock("--force").exit_code == 0
    assert project.lock("--check").exit_code == 0
    done = project.lock("--check", "--against", "main")
    assert done.exit_code == 1
    assert "docqa@2 changed without a new version" in done.stdout


def test_a_draft_may_be_recorded_as_often_as_it_changes(project: Project) -> None:
    project.git("init", "-b", "main")
    project.git("add", "prompts", "prompts.lock")
    project.git("commit", "-m", "templates")
    project.edit("docqa.yaml", "version: 2", "version: 3")
    assert project.lock("--against", "main").exit_code == 0
    project.edit("docqa.yaml", "Use only what", "Use just what")
    check = project.lock("--check", "--against", "main")
    assert check.exit_code == 1
    assert "docqa@3 is not as the lock has it; run `foreword lock`" in check.stdout
    assert project.lock("--against", "main").exit_code == 0
    assert project.lock("--check", "--against", "main").exit_code == 0


def test_against_a_revision_without_a_lock_everything_is_a_draft(project: Project) -> None:
    project.git("init", "-b", "main")
    project.git("commit", "--allow-empty", "-m", "nothing yet")
    assert project.lock("--check", "--against", "main").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--against", "nowhere"), "--against: git rev-parse says"),
        (("--against", "--output=x"), "--against: git rev-parse says"),
        (("--tokenizer", "/nowhere"), "has no tokenizer.json"),
        (("--requests-per-s", "0"), "Invalid value for '--requests-per-s'"),
        (("--url", "http://127.0.0.1:9"), "no gateway answers"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    project: Project, arguments: tuple[str, ...], words: str
) -> None:
    project.edit("docqa.yaml", "Use only what", "Use just what")
    done = project.lock("--check", *arguments)
    assert done.exit_code in (2, 3)
    assert words in done.stderr
    assert "Traceback" not in done.output


def test_a_damaged_lock_or_template_is_exit_code_2(project: Project) -> None:
    project.lock_file.write_text("<<<<<<< HEAD\n")
    assert project.lock("--check").exit_code == 2
    project.lock_file.unlink()
    project.edit("docqa.yaml", "version: 2", "version: one")
    done = project.lock()
    assert done.exit_code == 2
    assert "docqa.yaml:2:10" in done.stderr


def test_json_has_the_figures(project: Project) -> None:
    project.edit("docqa.yaml", "Use only what", "Use just what")
    options = ("--requests-per-s", "10", "--prefill-tok-s", "1000", "--format", "json")
    found = json.loads(project.lock("--check", *options).stdout)
    (problem,) = found["problems"]
    assert found["schema_version"] == 1
    assert not found["current"]
    assert problem["fault"] == "changed"
    assert problem["segment"] == "rules"
    assert problem["gpu_s_per_s"] == problem["invalidated_tokens"] / 100


def test_the_cost_comes_from_the_ledger_of_a_running_gateway(
    project: Project, gateway: str, client: openai.OpenAI
) -> None:
    for number in range(3):
        content = f"When does ferry {number} leave? " * 20
        messages: Any = [{"role": "user", "content": content}]
        list(
            client.chat.completions.create(
                model="default", messages=messages, max_tokens=2, stream=True
            )
        )
    project.edit("chat.yaml", "say so", "say it")
    done = project.lock("--check", "--url", gateway)
    assert done.exit_code == 1, done.output
    assert "for every request of chat; at " in done.stdout
    assert "tok/s of prefill" in done.stdout


def test_the_newest_model_is_not_taken_for_the_locks_own(project: Project) -> None:
    """Whoever runs another model here must not be told that the lock is wrong."""
    before = project.lock_file.read_bytes()
    project.made_model(write_tokenizer(project.root / "other", chat_template="{{ messages[0] }}"))
    for arguments in (("--check",), ()):
        done = project.lock(*arguments, tokenizer=False)
        assert done.exit_code == 0, done.output
        assert "made with another tokenizer" in done.stderr
    assert project.lock_file.read_bytes() == before


def test_the_newest_model_counts_where_it_is_the_locks_own(project: Project) -> None:
    project.made_model(project.tokenizer)
    done = project.lock("--check", tokenizer=False)
    assert done.exit_code == 0
    assert "token" not in done.stderr
