"""Templates of the operator's own, beside those of Foreword."""

from pathlib import Path

import pytest

from app.services import open_services
from app.settings import Settings
from prompts.errors import DuplicateTemplateError
from tests.gateways import gateway_settings

MINE = """name: {name}
version: {version}
variables:
  question: {{type: text, volatility: turn}}
segments:
  - {{id: question, role: user, volatility: turn, text: "{{{{ question }}}}"}}
"""


def settings_with(tmp_path: Path, *, name: str, version: int) -> Settings:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "mine.yaml").write_text(MINE.format(name=name, version=version))
    settings = gateway_settings(tmp_path, "http://127.0.0.1:9")
    return settings.model_copy(update={"templates": folder})


@pytest.mark.anyio
async def test_own_templates_stand_beside_the_shipped_ones(tmp_path: Path) -> None:
    async with open_services(settings_with(tmp_path, name="mine", version=1)) as services:
        assert services.templates.find("mine").reference == "mine@1"
        assert services.templates.find("chat").reference == "chat@1"


@pytest.mark.anyio
async def test_a_newer_version_of_a_shipped_template_is_taken(tmp_path: Path) -> None:
    async with open_services(settings_with(tmp_path, name="chat", version=2)) as services:
        assert services.templates.find("chat").reference == "chat@2"


@pytest.mark.anyio
async def test_the_same_template_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DuplicateTemplateError, match="chat@1"):
        async with open_services(settings_with(tmp_path, name="chat", version=1)):
            pass


def test_a_folder_under_home_is_found() -> None:
    folder = Settings(templates=Path("~/templates")).templates
    assert folder == Path.home() / "templates"
