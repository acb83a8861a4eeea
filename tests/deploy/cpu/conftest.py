"""Fixtures of the CPU shims' tests; the processes are in `real.py`."""

import os
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[3] / "deploy" / "engine-cpu"

sys.path.insert(0, str(PLUGIN / "src"))


@pytest.fixture(scope="session")
def cpu_python(request: pytest.FixtureRequest) -> str:
    """The engine environment's Python; FOREWORD_TEST_ENGINE_PYTHON names another."""
    named = os.environ.get("FOREWORD_TEST_ENGINE_PYTHON")
    return named or str(request.getfixturevalue("engine_python"))


@pytest.fixture(scope="session")
def cpu_model(request: pytest.FixtureRequest) -> str:
    """The tiny model's folder; FOREWORD_TEST_TINY_MODEL names another."""
    named = os.environ.get("FOREWORD_TEST_TINY_MODEL")
    return named or str(request.getfixturevalue("tiny_model"))
