"""Settings are read once, checked, and documented as they are."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from app.cli import main
from app.settings import Settings
from app.settings_reference import settings_reference
from app.stack.ports import is_loopback

ROOT = Path(__file__).parent.parent.parent


def test_the_reference_is_current() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == settings_reference(), "run `python -m app.settings_reference`"


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreword.toml").write_text(
        '[engine]\nurl = "http://file:1"\n[gateway]\nport = 9000\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREWORD_ENGINE__URL", "http://environment:1")
    settings = Settings()
    assert settings.engine.url == "http://environment:1"
    assert settings.gateway.port == 9000


def test_the_home_folder_is_expanded_and_nothing_can_be_changed() -> None:
    settings = Settings()
    assert settings.home.is_absolute()
    with pytest.raises(ValidationError):
        settings.home = Path("elsewhere")  # type: ignore[misc]


def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_GATEWAY__PORT", "many")
    done = CliRunner().invoke(main, ["serve"])
    assert done.exit_code == 2
    assert done.stderr.startswith("FOREWORD_GATEWAY__PORT: ")
    assert len(done.stderr.splitlines()) == 1


def test_finer_figures_may_not_be_kept_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_LEDGER__ROWS_DAYS", "100")
    done = CliRunner().invoke(main, ["serve"])
    assert done.exit_code == 2
    assert "FOREWORD_LEDGER" in done.stderr
    assert "hourly_days" in done.stderr


def test_a_databases_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWORD_DATABASE__URL", "postgresql://me:s3cret@host/name")
    settings = Settings()
    assert settings.database.url is not None
    assert settings.database.url.get_secret_value().endswith("@host/name")
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "example.org"])
def test_an_open_address_is_refused_without_keys(host: str) -> None:
    done = CliRunner().invoke(main, ["serve", "--host", host])
    assert done.exit_code == 2
    assert "without API keys" in done.stderr
    assert not is_loopback(host)
