"""What the supervisor's tests share: one tiny environment, made once."""

from pathlib import Path

import pytest

from app.stack.deploy_files import DeployFiles
from app.stack.environment import EngineEnvironment, ensure_environment
from app.stack.progress import silent
from tests.app.stack.tiny import tiny_plan, write_deploy


@pytest.fixture(scope="session")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> DeployFiles:
    return write_deploy(tmp_path_factory.mktemp("deploy"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FOREWORD_CACHE for the tiny environment."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def environment(deploy: DeployFiles, cache: Path) -> EngineEnvironment:
    return ensure_environment(tiny_plan(deploy, cache / "engine"), say=silent)
