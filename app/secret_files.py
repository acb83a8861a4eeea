"""Settings from files: `FOREWORD_DATABASE__URL_FILE=/run/secrets/url` says where the value is.

An environment variable shows in process lists and crash reports; a mounted secret does not.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.errors import InvalidSettingError

_PREFIX = "FOREWORD_"
_SUFFIX = "_FILE"
_MAX_BYTES = 65_536


def read_secret_files(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings whose values are in files, nested as the settings are; a final line end goes.

    Raises:
        InvalidSettingError: a file can't be read, or is no text.
    """
    made: dict[str, Any] = {}
    for name, path in environment.items():
        upper = name.upper()
        if not _names_a_file(upper):
            continue
        setting = upper.removeprefix(_PREFIX).removesuffix(_SUFFIX).lower()
        *sections, field = setting.split("__")
        section = made
        for part in sections:
            section = section.setdefault(part, {})
        section[field] = _read(Path(path), upper.removeprefix(_PREFIX))
    return made


def without_secret_files(environment: Mapping[str, str | None]) -> dict[str, str | None]:
    """The variables that are settings themselves."""
    return {name: value for name, value in environment.items() if not _names_a_file(name.upper())}


def _names_a_file(upper: str) -> bool:
    """All secrets are in sections; the tiers' FOREWORD_KV_KEY_FILE is none of the gateway's."""
    return upper.startswith(_PREFIX) and upper.endswith(_SUFFIX) and "__" in upper


def _read(path: Path, setting: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidSettingError(setting, f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSettingError(setting, f"{path} is not UTF-8 text") from error
    if len(data) > _MAX_BYTES:
        raise InvalidSettingError(setting, f"{path} is larger than a secret: {_MAX_BYTES:,} bytes")
    return text.removesuffix("\n").removesuffix("\r")
