"""Secrets come from files where the environment says so."""

from pathlib import Path

import pytest

from app.errors import InvalidSettingError
from app.secret_files import read_secret_files
from app.settings import Settings


def test_a_secret_is_read_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://u:p@db/x\n")
    monkeypatch.setenv("FOREWORD_DATABASE__URL_FILE", str(secret))
    url = Settings().database.url
    assert url is not None
    assert url.get_secret_value() == "postgresql://u:p@db/x"
    assert "u:p" not in repr(Settings())


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://file/x")
    monkeypatch.setenv("FOREWORD_DATABASE__URL_FILE", str(secret))
    monkeypatch.setenv("FOREWORD_DATABASE__URL", "postgresql://environment/x")
    url = Settings().database.url
    assert url is not None
    assert "environment" in url.get_secret_value()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(InvalidSettingError, match=r"DATABASE__URL_FILE: .*missing can't be read"):
        read_secret_files({"FOREWORD_DATABASE__URL_FILE": str(missing)})
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSettingError, match="UTF-8"):
        read_secret_files({"FOREWORD_DATABASE__URL_FILE": str(binary)})
