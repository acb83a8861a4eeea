"""Values that the settings only name: `env:NAME` of the gateway's environment, or `file:PATH`."""

from collections.abc import Mapping
from pathlib import Path

from app.errors import InvalidSettingError

_MAX_BYTES = 65_536


def read_values(
    references: Mapping[str, str], environment: Mapping[str, str], *, setting: str
) -> dict[str, str]:
    """The values; files are read again each time, since secrets are changed in place.

    Raises:
        InvalidSettingError: a variable isn't set, or a file can't be read.
    """
    return {
        name: _value(reference, environment, setting=f"{setting}.{name}")
        for name, reference in references.items()
    }


def _value(reference: str, environment: Mapping[str, str], *, setting: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        if where not in environment:
            raise InvalidSettingError(setting, f"the gateway has no environment variable {where}")
        return environment[where]
    try:
        with Path(where).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise InvalidSettingError(setting, f"{where} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSettingError(setting, f"{where} is not UTF-8 text") from error
    if len(data) > _MAX_BYTES:
        raise InvalidSettingError(setting, f"{where} is larger than a secret")
    return text.removesuffix("\n").removesuffix("\r")
