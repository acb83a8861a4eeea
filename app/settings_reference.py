"""`docs/settings.md`, from the settings themselves (`python -m app.settings_reference`)."""

from enum import Enum
from pathlib import Path

import click
from pydantic.fields import FieldInfo

from app.setting_names import all_settings, variable
from app.settings import Settings

_HEAD = """\
# Settings

Made by `python -m app.settings_reference`. Environment variables win over `foreword.toml` in the
working folder, where `FOREWORD_ENGINE__URL` is `url` under `[engine]`. Lists and tables are JSON:
`FOREWORD_REPLICAS__URLS='["http://a:30000", "http://b:30000"]'`. `foreword up` sets what its own
parts need.

A section or setting that isn't here ends `serve` and `up` with status 2 and the right name. Other
variables that begin with `FOREWORD_` may be another program's: a line on stderr names them.

| variable | default | meaning |
|---|---|---|
"""


def settings_reference() -> str:
    """The whole page."""
    rows = (
        f"| `{variable(path)}` | {_default(field)} | {field.description or ''} |"
        for path, field in all_settings(Settings)
    )
    return _HEAD + "\n".join(rows) + "\n"


def _default(field: FieldInfo) -> str:
    match field.default:
        case None:
            return "none"
        case Path() as path:
            return f"`{path}`"
        case tuple() as items:
            words = ", ".join(str(i.value if isinstance(i, Enum) else i) for i in items)
            return f"`{words}`" if words else "none"
        case value:
            return f"`{value}`"


if __name__ == "__main__":
    click.echo(settings_reference(), nl=False)
