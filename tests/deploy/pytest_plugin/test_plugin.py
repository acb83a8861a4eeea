"""The distribution as pytest meets it: a wheel with an entry point, a fixture and a marker."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "deploy" / "pytest-plugin"

TESTS = """
import itertools
import pytest

numbers = itertools.count()

def request(system):
    return [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}]

def good():
    return request("Be brief.")

def test_fixture(prefix_stable):
    prefix_stable(good, processes=2)

@pytest.mark.prefix_stable(processes=1)
def test_marked():
    return good()

@pytest.mark.prefix_stable(runs=2, processes=0)
def test_marked_with_fixtures(tmp_path):
    return request(f"Files are in {tmp_path}.")

@pytest.mark.prefix_stable(processes=1)
class TestGroup:
    def test_in_a_class(self):
        return good()

def test_of_no_prompt():
    assert next(numbers) == 0

@pytest.mark.prefix_stable(processes=2)
def test_bad_set():
    return request(" ".join({"one", "two", "three", "four", "five"}))

@pytest.mark.prefix_stable(runs=2, processes=0)
def test_bad_counter():
    return request(f"You are number {next(numbers)}.")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sources, as an installer would."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=SOURCE, check=True, capture_output=True, timeout=60)
    return next(folder.glob("*.whl"))


def test_the_wheel_brings_one_import_name_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"foreword_pytest"}
    assert "foreword_pytest" in {path.name for path in (SOURCE / "src").iterdir()}


def test_the_package_imports_only_the_standard_library_and_pytest() -> None:
    code = (
        "import sys; before = set(sys.modules); import foreword_pytest.plugin, "
        "foreword_pytest.child; print(*{name.split('.')[0] for name in sys.modules})"
    )
    env = os.environ | {"PYTHONPATH": str(SOURCE / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    ours = {"app", "bench", "cache", "prompts", "retrieval", "tokenizers", "jinja2", "click"}
    assert not set(done.stdout.split()) & ours


@pytest.mark.parametrize("mode", ["importlib", "prepend"])
def test_pytest_finds_the_fixture_and_the_marker(wheel: Path, tmp_path: Path, mode: str) -> None:
    (tmp_path / "test_prompts.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    env = os.environ | {"PYTHONPATH": str(wheel)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", f"--import-mode={mode}"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "2 failed, 5 passed" in done.stdout, done.stdout + done.stderr
    assert "likely cause: an order that isn't fixed" in done.stdout
    assert "likely cause: a number that changes" in done.stdout
    assert "assertion.py" not in done.stdout, "the plugin's own frames hide"
