"""Every example runs, and shows what it says: re-use, citations, calls, a guarded hit rate."""

import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.examples.conftest import EXAMPLES, ROOT, Examples
from tests.examples.workflow import Step, job_steps, job_variables
from tests.frameworks import framework_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WORKFLOW = EXAMPLES / "ci/prompts.yaml"
BASH = ("bash", "-eo", "pipefail", "-c")


def commands(job: str) -> tuple[Step, ...]:
    """What a job runs once Foreword is installed, as it is here."""
    first, *rest = job_steps(WORKFLOW, job)
    assert first.name == "Install Foreword"
    return tuple(rest)


def reused(shown: str) -> list[int]:
    """The tokens that were re-used of each prompt that an example tells of."""
    return [
        int(found.replace(",", "")) for found in re.findall(r"^re-used ([\d,]+) of", shown, re.M)
    ]


def test_openai_chat(examples: Examples) -> None:
    first, second = reused(examples.run(sys.executable, "examples/openai_chat.py"))
    assert first < second


def test_openai_documents(examples: Examples) -> None:
    documents = ("samples/ferry/fares.md", "samples/ferry/safety.pdf")
    shown = examples.run(sys.executable, "examples/openai_documents.py", *documents)
    assert "fares.md: completed" in shown
    assert "safety.pdf: completed" in shown
    assert shown.count("\n  fares.md: “") == 2
    assert reused(shown)[1] > 0


def test_openai_conversation(examples: Examples) -> None:
    shown = examples.run(sys.executable, "examples/openai_conversation.py")
    first, second, third = reused(shown)
    assert first < second < third
    assert "holds 6 items" in shown


def test_openai_batch(examples: Examples) -> None:
    shown = examples.run(sys.executable, "examples/openai_batch.py")
    assert "is completed" in shown
    assert re.findall(r"^letter-\d", shown, re.M) == ["letter-1", "letter-2", "letter-3"]
    assert sum(count > 0 for count in reused(shown)) >= 2


@pytest.mark.parametrize(
    ("framework", "example"),
    [("langchain", "langchain_chain.py"), ("llamaindex", "llamaindex_chat.py")],
)
def test_frameworks(framework: str, example: str, examples: Examples, engine_cache: Path) -> None:
    python = framework_python(framework, engine_cache)
    _, second, *_ = reused(examples.run(python, "-W", "ignore", f"examples/{example}"))
    assert second > 0


def test_curl(examples: Examples) -> None:
    shown = examples.run("bash", "examples/curl.sh")
    assert "data: [DONE]" in shown
    assert "island.html" in shown
    assert '"verdict"' in shown


def test_an_agent(examples: Examples) -> None:
    shown = examples.run("bash", "examples/agent/ask.sh")
    assert '→ search {"query": "What does a dog pay?"}' in shown
    assert '→ read_document {"document": "fares.md"}' in shown
    assert reused(shown)[0] > 0
    assert "3 steps" in shown


def committed(examples: Examples, where: Path, *before: str) -> None:
    """All files of a repository, after these commands."""
    commit = "git -c user.name=x -c user.email=x@example.org commit --quiet --message change"
    for command in (*before, "git add .", commit):
        examples.run("bash", "-c", command, where=where)


@pytest.fixture
def repository(examples: Examples, tmp_path: Path) -> Path:
    """One that the workflow is copied to: templates, their lock and a handbook on origin/main."""
    shutil.copytree(ROOT / "prompts/templates", tmp_path / "prompts/templates")
    shutil.copytree(ROOT / "samples/ferry", tmp_path / "handbook")
    shutil.copy(EXAMPLES / "ci/questions.txt", tmp_path)
    committed(examples, tmp_path, "foreword lock", "git init --quiet --initial-branch main")
    examples.run("git", "update-ref", "refs/remotes/origin/main", "HEAD", where=tmp_path)
    return tmp_path


def run_steps(
    examples: Examples,
    where: Path,
    steps: Iterable[Step],
    variables: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """As GitHub runs them."""
    for step in steps:
        examples.run(*BASH, step.script, where=where, variables=variables)


def test_the_workflow_lets_sound_prompts_through(examples: Examples, repository: Path) -> None:
    (repository / "prompts/note.j2").write_text("Answer from the documents.\n\n{{ question }}\n")
    committed(examples, repository)
    run_steps(examples, repository, commands("lint"))


def test_the_workflow_stops_a_clock_in_front(examples: Examples, repository: Path) -> None:
    (repository / "prompts/note.j2").write_text(
        "Today is {{ now() }}.\nAnswer from the documents, and name the one that you used.\n\n"
        "{{ question }}\n"
    )
    committed(examples, repository)
    lint, _ = commands("lint")
    assert "FW102" in examples.run(*BASH, lint.script, where=repository, status=1)


def test_the_workflow_stops_other_bytes_under_an_old_version(
    examples: Examples, repository: Path
) -> None:
    template = repository / "prompts/templates/docqa.yaml"
    template.write_text(template.read_text("utf-8").replace("You answer", "You reply to"), "utf-8")
    committed(examples, repository)
    lint, lock = commands("lint")
    examples.run(*BASH, lint.script, where=repository)
    assert "docqa@2" in examples.run(*BASH, lock.script, where=repository, status=1)


def test_the_workflow_guards_the_hit_rate(examples: Examples, repository: Path) -> None:
    *ask, guard = commands("hit-rate")
    variables = job_variables(WORKFLOW, "hit-rate")
    run_steps(examples, repository, (*ask, guard), variables)
    # No collection's first question finds anything.
    higher = {**variables, "BUDGET": "docqa=100%"}
    shown = examples.run(*BASH, guard.script, where=repository, status=1, variables=higher)
    assert "docqa" in shown.splitlines()[-1]


def test_no_example_is_forgotten() -> None:
    """A file without a test, or without a line in README.md, isn't kept right by anybody."""
    told, tested = (EXAMPLES / "README.md").read_text("utf-8"), Path(__file__).read_text("utf-8")
    for path in EXAMPLES.rglob("*"):
        if path.is_file() and path.name != "README.md" and "__pycache__" not in path.parts:
            name = str(path.relative_to(EXAMPLES))
            assert f"]({name})" in told, name
            assert name in tested or name == "agent/clerk.yaml", name
