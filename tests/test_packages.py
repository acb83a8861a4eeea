"""The packages are ours, offer what they say, and stay light."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "bench", "cache", "prompts", "retrieval")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_this_repositorys(name: str) -> None:
    """A wheel that installs the same top-level name would shadow ours."""
    file = importlib.import_module(name).__file__
    assert file is not None
    assert Path(file).is_relative_to(ROOT)


@pytest.mark.parametrize("name", ["bench.engine_sim", "cache", "prompts", "retrieval"])
def test_what_a_package_offers_is_there(name: str) -> None:
    package = importlib.import_module(name)
    for member in package.__all__:
        getattr(package, member)


def _imported(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_prompts_import_none_of_the_heavy_libraries() -> None:
    heavy = {"torch", "faiss", "sentence_transformers", "fastapi", "redis", "httpx", "sqlalchemy"}
    assert not _imported("import prompts") & heavy


def test_the_command_line_imports_a_command_only_when_it_is_used() -> None:
    heavy = {"torch", "faiss", "sentence_transformers", "fastapi", "httpx", "sqlalchemy"}
    assert not _imported("import app.cli") & heavy


def test_the_gateway_starts_without_torch() -> None:
    """The embedding model is loaded by the first question that needs it."""
    heavy = {"torch", "faiss", "sentence_transformers", "sglang", "lmcache"}
    assert not _imported("import app.main") & heavy
