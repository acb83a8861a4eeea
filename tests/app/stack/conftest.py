"""What the supervisor's tests share: one tiny environment, made once."""

from pathlib import Path

import pytest

from app.stack.backoff import RestartPolicy
from app.stack.deploy_files import DeployFiles
from app.stack.environment import ensure_environment
from app.stack.environment_plan import EngineEnvironment
from app.stack.progress import silent
from app.stack.settings import StackSettings
from tests.app.stack.tiny import offline_env, tiny_plan, write_deploy, write_model

QUICK = RestartPolicy(first_s=0.1, longest_s=0.2, attempts=3)


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


@pytest.fixture
def settings(
    tmp_path: Path, cache: Path, deploy: DeployFiles, environment: EngineEnvironment
) -> StackSettings:
    """Engine and tier, no gateway."""
    return StackSettings(
        home=tmp_path / "home",
        cache=cache,
        model=str(write_model(tmp_path / "model")),
        base_env=offline_env(deploy),
        deploy=deploy,
        gateway=False,
        cpu=True,
        restart=QUICK,
    )
