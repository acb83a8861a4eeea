"""Fixtures of the guard's tests; the processes are in `real.py`."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.deploy.guard.real import Process, free_port
from tests.deploy.guard.rig import Rig, running_rig

sys.path.insert(0, str(Path(__file__).parents[3] / "deploy" / "engine-guard" / "src"))


@pytest.fixture(scope="session")
def guard_python(request: pytest.FixtureRequest) -> str:
    """The engine environment's Python; FOREWORD_TEST_ENGINE_PYTHON names another."""
    named = os.environ.get("FOREWORD_TEST_ENGINE_PYTHON")
    return named or str(request.getfixturevalue("engine_python"))


@pytest.fixture(scope="session")
def guard_model(request: pytest.FixtureRequest) -> str:
    """The tiny model's folder; FOREWORD_TEST_TINY_MODEL names another."""
    named = os.environ.get("FOREWORD_TEST_TINY_MODEL")
    return named or str(request.getfixturevalue("tiny_model"))


@pytest.fixture(scope="package")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port = free_port()
    process = Process(tmp_path_factory.mktemp("redis") / "redis.log")
    process.spawn(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"], {})
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    yield port
    process.kill()


@pytest.fixture(scope="package")
def rig(
    guard_python: str,
    guard_model: str,
    redis_port: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    """An engine and all its tiers, for both files that hurt them; leave them healthy."""
    home = tmp_path_factory.mktemp("tiers")
    with running_rig(guard_python, guard_model, redis_port, home) as running:
        yield running
